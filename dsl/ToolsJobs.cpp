// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsJobs.h"

#include "autotune/Published.h"
#include "dsl/ToolsCommon.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <dlfcn.h>
#include <optional>
#include <sstream>

namespace sectile::tools {
namespace {

[[noreturn]] void fail(std::string kernel, std::string message, const char *rule, std::string wayOut) {
  throw UserError({{}, std::move(kernel), "tune", std::move(message), rule, std::move(wayOut)});
}

std::string joined(const std::vector<std::string> &names) {
  return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
}

void addJob(std::vector<Job> &jobs, const std::string &line, const std::string &place) {
  std::istringstream in(line.substr(0, line.find('#')));
  Job job;
  job.place = place;
  in >> job.kernel;
  for (std::string word; in >> word;)
    job.words.push_back(word);
  if (job.kernel.empty())
    return;
  job.text = job.kernel;
  for (const std::string &w : job.words)
    job.text += " " + w;
  jobs.push_back(std::move(job));
}

} // namespace

void loadLibraries(const std::vector<std::string> &libraries) {
  for (const std::string &library : libraries) {
    const std::string path = library.find('/') == std::string::npos ? "./" + library : library;
    std::string why = whyNoFile(path); // the loader would wait at a pipe
    if (why.empty() && !dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      const char *said = dlerror();
      why = said ? said : "no reason given";
    }
    if (!why.empty())
      fail({}, fmt::format("{} cannot be loaded: {}", path, why), "tune_load", "name a shared library that is linked with Sectile");
  }
}

std::string publishedList() {
  std::string text;
  for (const std::string &name : autotune::publishedNames())
    text += name + "\n";
  return text;
}

std::vector<Job> readJobs(const std::string &path, const std::string &kernel, const std::vector<std::string> &args, const std::string &verb) {
  std::vector<Job> jobs;
  if (!path.empty()) {
    std::string why;
    std::optional<std::string> text = readInput(path, why);
    if (!text)
      fail({}, fmt::format("'{}': {}", path, why), "tune_jobs", "name a file with a kernel and its arguments per line");
    std::istringstream in(*text);
    int number = 0;
    for (std::string line; std::getline(in, line);)
      addJob(jobs, line, fmt::format("{}:{}", path, ++number));
  }
  if (!kernel.empty()) {
    std::string line = kernel;
    for (const std::string &a : args)
      line += " " + a;
    addJob(jobs, line, "the command line");
  }
  if (jobs.empty())
    fail({}, fmt::format("there is nothing to {}; kernels are {}", verb, joined(autotune::publishedNames())), "tune_jobs",
         "name a kernel by --kernel with one --arg per argument, or a file of such lines by --jobs");
  return jobs;
}

detail::KernelDesc kernelOf(const Job &job) {
  auto kernel = autotune::findPublished(job.kernel);
  if (!kernel)
    fail(job.kernel, fmt::format("{}: '{}' is no kernel; kernels are {}", job.place, job.kernel, joined(autotune::publishedNames())), "tune_kernel",
         "load its library by --load, and publish() it there");
  return *kernel;
}

JobArgs parseArgs(const Job &job, const detail::KernelDesc &kernel) {
  if (job.words.size() != kernel.params.size())
    fail(job.kernel, fmt::format("{}: {} arguments given, the kernel has {}", job.place, job.words.size(), kernel.params.size()), "tune_args",
         "give one per parameter, such as 64x128xbf16 or f32=1.5");
  JobArgs out;
  for (std::size_t i = 0; i < job.words.size(); ++i) {
    const std::string &word = job.words[i];
    out.made.push_back(parseToolArg(word.find('=') == std::string::npos ? word + "=zeros" : word));
    ToolArg &a = out.made.back();
    const detail::ParamDesc &p = kernel.params[i];
    if (a.arg.dtype != p.dtype || a.arg.rank != p.rank)
      fail(job.kernel, fmt::format("{}: argument {} is {}, the kernel takes {} of rank {}", job.place, i, word, name(p.dtype), p.rank), "tune_args",
           p.rank < 0 ? fmt::format("write {}=VALUE", name(p.dtype)) : fmt::format("write {} lengths and {}, such as 64x{}", p.rank, name(p.dtype), name(p.dtype)));
    a.arg.readOnly = p.readOnly;
    if (isFloat(a.arg.dtype) && a.arg.isTensor()) {
      a.bytes = {};
      a.arg.data = nullptr;
    }
    out.args.push_back(a.arg);
  }
  return out;
}

} // namespace sectile::tools
