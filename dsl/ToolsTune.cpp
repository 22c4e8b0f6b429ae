// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsTune.h"

#include "autotune/Tune.h"
#include "dsl/ToolsCommon.h"
#include "dsl/ToolsJobs.h"
#include "dsl/ToolsTuneReport.h"

#include <sectile/Error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace sectile::tools {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void fail(std::string kernel, std::string message, const char *rule, std::string wayOut) {
  throw UserError({{}, std::move(kernel), "tune", std::move(message), rule, std::move(wayOut)});
}

/// "BM=64,128": values of one name.
std::map<std::string, std::vector<int>> parseOnly(const std::vector<std::string> &list) {
  std::map<std::string, std::vector<int>> only;
  for (const std::string &text : list) {
    const std::size_t equals = text.find('=');
    std::vector<int> values;
    std::string_view rest = equals == std::string::npos ? std::string_view() : std::string_view(text).substr(equals + 1);
    while (!rest.empty()) {
      int value = 0;
      auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
      if (error != std::errc() || (end != rest.data() + rest.size() && *end != ','))
        fail({}, fmt::format("'{}' is no list of values", text), "tune_only", "write NAME=VALUE,VALUE.., such as BM=64,128");
      values.push_back(value);
      rest.remove_prefix(std::min(rest.size(), static_cast<std::size_t>(end - rest.data()) + 1));
    }
    if (values.empty())
      fail({}, fmt::format("'{}' is no list of values", text), "tune_only", "write NAME=VALUE,VALUE.., such as BM=64,128");
    only[text.substr(0, equals)] = std::move(values);
  }
  return only;
}

std::vector<Device> devicesOf(const TuneToolOptions &options, const RankPlace &place) {
  std::vector<Device> devices;
  for (const std::string &name : options.devices) {
    int number = 0;
    const std::string_view digits = name.starts_with("gpu:") ? std::string_view(name).substr(4) : std::string_view();
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (name == "interpreter")
      devices.push_back(Device::interpreter());
    else if (name == "gpus")
      for (int i = 0; i < std::max(1, Device::gpuCount()); ++i)
        devices.push_back(Device::gpu(i)); // with none, its error says why
    else if (!digits.empty() && error == std::errc() && end == digits.data() + digits.size())
      devices.push_back(Device::gpu(number));
    else
      fail({}, fmt::format("'{}' is no device", name), "tune_device", "name gpu:N, gpus for all of them, or interpreter");
  }
  if (devices.empty()) // several processes on one machine take a GPU each
    devices.push_back(place.size > 1 && Device::gpuCount() > 0 ? Device::gpu(place.local % Device::gpuCount()) : Device::best());
  return devices;
}

/// What is said while jobs run. On a terminal the last line is a bar that is drawn over.
class Display {
public:
  Display(std::size_t jobs, bool always) : jobs(jobs), isTerminal(always || isatty(STDERR_FILENO)), begin(Clock::now()) {}

  void show(const std::string &job, const TuneProgress &p) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto now = Clock::now();
    if (!isTerminal || now - last < std::chrono::milliseconds(100))
      return;
    last = now;
    constexpr int width = 24;
    const double share = p.candidates ? static_cast<double>(p.measured) / static_cast<double>(p.candidates) : 0;
    const double total = (static_cast<double>(done) + std::min(share, 1.0)) / static_cast<double>(jobs);
    const int filled = static_cast<int>(total * width);
    const double spent = std::chrono::duration<double>(now - begin).count();
    const double left = done ? spent / static_cast<double>(done) * static_cast<double>(jobs - done) : p.secondsLeft * static_cast<double>(jobs);
    draw(fmt::format("[{}{}] {}/{} jobs, {:.0f} s left | {}: {}/{} candidates{}", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(width - filled), '.'), done, jobs, left, job, p.measured, p.candidates,
                     p.bestMicros > 0 ? fmt::format(", best {:.1f} us", p.bestMicros) : std::string()));
  }
  void finished(const std::string &line) {
    std::lock_guard<std::mutex> lock(mutex);
    ++done;
    draw({});
    std::fputs((line + "\n").c_str(), stderr);
  }

private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string &line) {
    if (isTerminal)
      std::fputs(fmt::format("\r\x1b[K{}", line).c_str(), stderr);
    std::fflush(stderr);
  }
  std::size_t jobs, done = 0;
  bool isTerminal;
  Clock::time_point begin, last{};
  std::mutex mutex;
};

std::string summaryOf(const TuneResult &r) {
  const std::string choice = r.text.empty() ? "the only configuration" : r.text;
  if (r.fromRecord)
    return fmt::format("{}: {:.2f} us, from the record", choice, r.micros);
  std::string text = fmt::format("{}: {:.2f} us", choice, r.micros);
  if (r.defaultMicros > 0)
    text += fmt::format(", {:.2f}x the default", r.defaultMicros / r.micros);
  if (r.boundMicros > 0)
    text += fmt::format(", {:.0f} % of the bound", 100 * r.boundMicros / r.micros);
  text += fmt::format("; {} of {} candidates timed in {:.1f} s, ended by: {}", r.tried, r.candidates.size(), r.seconds, r.endedBy);
  if (r.noisy)
    text += "; NOISY, not final";
  return text;
}

std::optional<int> numberFromEnvironment(const char *name) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return std::nullopt;
  int value = 0;
  const std::string_view all(text);
  auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc() || end != all.data() + all.size() || value < 0)
    fail({}, fmt::format("{} is '{}', no number of a process", name, text), "tune_rank", "unset it, or start the processes by their launcher");
  return value;
}

} // namespace

RankPlace rankFromEnvironment() {
  constexpr const char *launchers[][3] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  };
  for (const auto &[rankName, sizeName, localName] : launchers) {
    const auto rank = numberFromEnvironment(rankName), size = numberFromEnvironment(sizeName);
    if (!rank || !size)
      continue;
    if (*rank >= *size)
      fail({}, fmt::format("{} is {} and {} is {}", rankName, *rank, sizeName, *size), "tune_rank", "unset them, or start the processes by their launcher");
    return {*rank, *size, numberFromEnvironment(localName).value_or(*rank)};
  }
  return {};
}

void addTuneOptions(CLI::App &app, TuneToolOptions &options) {
  app.add_option("--load", options.libraries, "Shared library with kernels that publish() makes known")->type_name("LIBRARY");
  app.add_option("--kernel", options.kernel, "A kernel by name")->type_name("NAME");
  app.add_option("--arg", options.args, "One per argument of the kernel: DIMSxDTYPE[=FILL] (FILL counts for integers) or DTYPE=V")
      ->type_name("ARG")
      ->allow_extra_args(false);
  app.add_option("--jobs", options.jobsFile, "File with a kernel and its arguments per line, - for standard input")->type_name("FILE");
  app.add_option("--device", options.devices, "gpu:N, gpus for all, or interpreter; several share the jobs. Default: SECTILE_DEVICE, else the first GPU")
      ->type_name("DEVICE")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--budget", options.budget, "Seconds per job")->check(CLI::Range(0.001, 1e6))->capture_default_str()->type_name("SECONDS");
  app.add_flag("--exhaustive", options.exhaustive, "Compile and time every candidate, whatever it takes");
  app.add_option("--verify", options.verify, "Whose results are compared with the default configuration's")
      ->check(CLI::IsMember({"finalists", "all", "none"}))
      ->capture_default_str();
  app.add_option("--only", options.only, "Values to try of a number or schedule choice, NAME=V,V..")->type_name("VALUES")->allow_extra_args(false);
  app.add_flag("--again", options.again, "Also what the record knows already");
  app.add_flag("--progress", options.progress, "The bar also where standard error is no terminal");
  app.add_option("--json", options.json, "File for the results as JSON, - for standard output instead of tables")->type_name("FILE");
  app.add_option("--html", options.html, "File for a report with drawings, for a browser")->type_name("FILE");
  app.add_flag("--list", options.list, "Print the names of the kernels");
}

int tuneFile(const TuneToolOptions &options) {
  loadLibraries(options.libraries);
  if (options.list) {
    printOut(publishedList());
    return exitOk;
  }
  const RankPlace place = rankFromEnvironment();
  const std::vector<Device> devices = devicesOf(options, place);
  const auto only = parseOnly(options.only);
  std::vector<Job> all = readJobs(options.jobsFile, options.kernel, options.args, "tune"), jobs;
  std::vector<JobArgs> args;
  std::vector<detail::KernelDesc> kernels;
  for (std::size_t i = 0; i < all.size(); ++i) { // every rank checks all
    const detail::KernelDesc kernel = kernelOf(all[i]);
    JobArgs parsed = parseArgs(all[i], kernel);
    if (static_cast<int>(i % static_cast<std::size_t>(place.size)) != place.rank)
      continue;
    jobs.push_back(std::move(all[i]));
    args.push_back(std::move(parsed));
    kernels.push_back(kernel);
  }

  Display display(std::max<std::size_t>(1, jobs.size()), options.progress);
  std::vector<std::optional<TuneResult>> results(jobs.size());
  std::vector<std::string> errors(jobs.size());
  std::vector<int> gpus(jobs.size(), -1);
  std::atomic<std::size_t> next{0};
  std::exception_ptr bug;
  std::mutex bugMutex;
  auto serve = [&](const Device &device) {
    for (std::size_t i; (i = next.fetch_add(1)) < jobs.size();) {
      TuneOptions tune;
      tune.seconds = options.budget;
      tune.exhaustive = options.exhaustive;
      tune.verify = options.verify != "none";
      tune.verifyAll = options.verify == "all";
      tune.again = options.again;
      tune.only = only;
      tune.device = device;
      gpus[i] = device.ordinal();
      tune.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / devices.size()));
      tune.progress = [&](const TuneProgress &p) { display.show(jobs[i].text, p); };
      autotune::TuneHooks hooks;
      hooks.hostMemory = true;
      try {
        results[i] = autotune::tuneWith(kernels[i], args[i].args, tune, hooks);
        display.finished(fmt::format("{} on {}: {}", jobs[i].text, device.name(), summaryOf(*results[i])));
      } catch (const UserError &e) {
        errors[i] = e.what();
        display.finished(fmt::format("{}: {}", jobs[i].text, e.what()));
      } catch (...) {
        std::lock_guard<std::mutex> lock(bugMutex);
        bug = std::current_exception();
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t d = 1; d < devices.size(); ++d)
    threads.emplace_back(serve, std::cref(devices[d]));
  serve(devices[0]);
  for (std::thread &t : threads)
    t.join();
  if (bug)
    std::rethrow_exception(bug);

  ordered_json list = ordered_json::array();
  std::string tables;
  bool failed = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    failed = failed || !results[i];
    ordered_json j = {{"kernel", jobs[i].kernel}, {"args", jobs[i].words}, {"rank", place.rank}, {"gpu", gpus[i]}};
    if (results[i]) {
      j["result"] = ordered_json::parse(results[i]->json());
      tables += fmt::format("{} on {}\n{}\n{}", jobs[i].text, results[i]->device, summaryOf(*results[i]),
                            results[i]->fromRecord ? std::string("\n") : results[i]->table() + "\n");
    } else {
      j["error"] = errors[i];
    }
    list.push_back(std::move(j));
  }
  const std::string json = list.dump(2) + "\n";
  if (options.json == "-")
    printOut(json);
  else
    printOut(tables);
  if (!options.json.empty() && options.json != "-")
    writeFile(options.json, json);
  if (!options.html.empty()) {
    std::vector<ReportJob> report;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      report.push_back({jobs[i].kernel, fmt::format("{}", fmt::join(jobs[i].words, " ")), results[i].value_or(TuneResult()), errors[i]});
    writeFile(options.html, tuneReport(report));
  }
  return failed ? exitUserError : exitOk;
}

} // namespace sectile::tools
