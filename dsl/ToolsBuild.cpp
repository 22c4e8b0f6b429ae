// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsBuild.h"

#include "dsl/Ahead.h"
#include "dsl/Choice.h"
#include "dsl/ToolsCommon.h"
#include "dsl/ToolsJobs.h"

#include <sectile/Error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace sectile::tools {
namespace {

[[noreturn]] void fail(std::string message, const char *rule, std::string wayOut) {
  throw UserError({{}, {}, "build", std::move(message), rule, std::move(wayOut)});
}

} // namespace

void addBuildOptions(CLI::App &app, BuildToolOptions &options) {
  app.add_option("--load", options.libraries, "Shared library with kernels that publish() makes known")->type_name("LIBRARY");
  app.add_option("--kernel", options.kernel, "A kernel by name")->type_name("NAME");
  app.add_option("--arg", options.args, "One per argument of the kernel: DIMSxDTYPE, such as 4096x4096xbf16, or DTYPE=V")->type_name("ARG")->allow_extra_args(false);
  app.add_option("--jobs", options.jobsFile, "File with a kernel and its arguments per line, - for standard input")->type_name("FILE");
  app.add_option("--targets", options.targets, "GPUs to build for, such as sm_90a,sm_100a")->type_name("TARGETS")->delimiter(',')->allow_extra_args(false);
  app.add_option("--config", options.configs, "A configuration by hand, \"BM=64 warps=8\"; several: a variant each")->type_name("CONFIG")->allow_extra_args(false);
  app.add_option("--gpu", options.gpus, "Whose rows of the tuning record count for a target, TARGET=NAME; default: the target's chip")->type_name("GPU")->allow_extra_args(false);
  app.add_option("--align", options.align, "Bytes that pointers are multiples of")->check(CLI::IsMember({1, 2, 4, 8, 16}))->capture_default_str();
  app.add_flag("--ptx", options.withPtx, "Keep PTX beside the cubins, for drivers that refuse these");
  app.add_option("--out", options.out, "Folder for the files, made if it is not there")->capture_default_str()->type_name("FOLDER");
  app.add_option("--name", options.name, "Name of the files; C names begin with it")->capture_default_str()->type_name("NAME");
  app.add_flag("--list", options.list, "Print the names of the kernels");
}

int buildFiles(const BuildToolOptions &options) {
  loadLibraries(options.libraries);
  if (options.list) {
    printOut(publishedList());
    return exitOk;
  }
  AheadOptions ahead{options.name, options.targets, options.withPtx, {}};
  for (const std::string &text : options.gpus) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      fail(fmt::format("'{}' names no GPU for a target", text), "build_gpu", "write TARGET=NAME, such as sm_90a='NVIDIA H200'");
    ahead.gpus.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<Config> byHand;
  for (const std::string &text : options.configs) {
    std::optional<Config> config = parseChoice(text);
    if (!config)
      fail(fmt::format("'{}' is no configuration", text), "build_config", "write names with values, one blank apart: BM=64 warps=8");
    byHand.push_back(std::move(*config));
  }
  std::vector<AheadJob> jobs;
  for (const Job &job : readJobs(options.jobsFile, options.kernel, options.args, "build")) {
    const detail::KernelDesc kernel = kernelOf(job);
    AheadJob one{kernel, job.kernel, parseArgs(job, kernel).args, byHand};
    for (KernelArg &arg : one.args) // alignment alone counts
      if (arg.isTensor())
        arg.data = reinterpret_cast<void *>(static_cast<std::uintptr_t>(options.align));
    jobs.push_back(std::move(one));
  }
  const AheadResult result = buildAhead(jobs, ahead);
  std::error_code error;
  std::filesystem::create_directories(options.out, error); // what is wrong with it, writing tells
  for (const auto &[file, text] : result.files)
    writeFile((std::filesystem::path(options.out) / file).string(), text);
  printOut(result.table);
  return exitOk;
}

} // namespace sectile::tools
