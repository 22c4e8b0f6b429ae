// SPDX-License-Identifier: Apache-2.0
/// \file Runs the cases in child processes, batch by batch. A case that crashes or stalls is named, and the
/// rest goes on in a fresh child.
#include "tests/cases/Cases.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cases;

namespace {

struct Options {
  bool gpu = false, quick = false, list = false, rates = false;
  std::vector<std::string> only;
  std::string ptxFolder;
  int stallSeconds = 20;
};

/// One line to the supervisor; pipes keep lines of up to PIPE_BUF bytes whole.
void say(int fd, std::string line) {
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (line.size() > 2000)
    line.resize(2000);
  line += '\n';
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    _exit(3);
}

void runOne(const CaseInfo &info, const Options &options, int fd) {
  say(fd, fmt::format("B {}", info.name));
  Run run(options.gpu, options.quick);
  run.beatFd = fd;
  run.rates = options.rates;
  run.name = info.name;
  run.ptxFolder = options.ptxFolder;
  std::string line;
  try {
    info.body(run);
    if (run.failures == 0 && run.checks == 0)
      run.fail("nothing was checked");
    line = run.failures == 0
               ? "OK"
               : fmt::format("FAILED: {}{}", run.message,
                             run.failures > 1 ? fmt::format(" (and {} more)", run.failures - 1) : "");
  } catch (const Skip &skip) {
    line = run.failures ? "FAILED: " + run.message : "SKIPPED: " + skip.reason;
  } catch (const std::exception &e) {
    line = fmt::format("FAILED: threw {}", e.what());
  }
  say(fd, fmt::format("E {} {}", info.name, line));
}

/// What a batch of cases came to. `results` lacks those that did not finish.
struct Batch {
  std::map<std::string, std::string> results;
  std::string stuck; ///< the case during which the child died or stalled
  std::string how;
};

Batch runBatch(const std::vector<CaseInfo> &batch, const Options &options) {
  Batch result;
  int ends[2];
  if (pipe(ends) != 0)
    throw std::runtime_error("pipe failed");
  std::fflush(stdout);
  pid_t child = fork();
  if (child < 0)
    throw std::runtime_error("fork failed");
  if (child == 0) {
    close(ends[0]);
    setpgid(0, 0);
    for (const CaseInfo &info : batch)
      runOne(info, options, ends[1]);
    say(ends[1], "D");
    _exit(0);
  }
  setpgid(child, child); // whichever of the two comes first
  close(ends[1]);
  std::string pending;
  bool done = false, stalled = false;
  for (;;) {
    pollfd p{ends[0], POLLIN, 0};
    int ready = poll(&p, 1, options.stallSeconds * 1000);
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0) {
      stalled = true;
      break;
    }
    char block[4096];
    ssize_t n = read(ends[0], block, sizeof block);
    if (n <= 0)
      break;
    pending.append(block, static_cast<std::size_t>(n));
    for (std::size_t at; (at = pending.find('\n')) != std::string::npos; pending.erase(0, at + 1)) {
      std::string line = pending.substr(0, at);
      if (line == "D") {
        done = true;
      } else if (line[0] == 'B') {
        result.stuck = line.substr(2);
      } else if (line[0] == 'E') {
        std::size_t space = line.find(' ', 2);
        std::string name = line.substr(2, space - 2), text = line.substr(space + 1);
        fmt::print("{:<16} {}\n", name, text);
        std::fflush(stdout);
        result.results[name] = text;
        result.stuck.clear();
      }
    }
    if (done)
      break;
  }
  close(ends[0]);
  kill(-child, SIGKILL); // the group of this child alone: its own children too; no more than a formality for
                         // one that died
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (stalled)
    result.how = fmt::format("stalled for {} s", options.stallSeconds);
  else if (!done)
    result.how = WIFSIGNALED(status) ? fmt::format("the process was ended by signal {}", WTERMSIG(status))
                                     : fmt::format("the process ended with status {}", WEXITSTATUS(status));
  if (done)
    result.stuck.clear();
  return result;
}

/// In a child, so that this process never touches the driver.
int countGpus() {
  pid_t child = fork();
  if (child == 0)
    _exit(std::min(Device::gpuCount(), 100));
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
    return 0;
  return WEXITSTATUS(status);
}

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  std::map<std::string, std::string> results;
};

int runAll(const Options &options, Tally &tally) {
  std::vector<CaseInfo> all = registry();
  std::sort(all.begin(), all.end(),
            [](const CaseInfo &a, const CaseInfo &b) { return std::strcmp(a.name, b.name) < 0; });
  if (!options.only.empty())
    std::erase_if(all, [&](const CaseInfo &c) {
      return std::none_of(options.only.begin(), options.only.end(), [&](const std::string &prefix) {
        return std::string_view(c.name).starts_with(prefix);
      });
    });
  if (all.empty()) {
    fmt::print(stderr, "no case has such a name\n");
    return 2;
  }
  if (options.list) {
    for (const CaseInfo &c : all)
      fmt::print("{}\n", c.name);
    return 0;
  }
  auto &[passed, failed, skipped, results] = tally;
  if (options.gpu && countGpus() == 0) {
    for (const CaseInfo &c : all)
      fmt::print("{:<16} SKIPPED: no GPU\n", c.name);
    fmt::print("0 passed, 0 failed, {} skipped\n", all.size());
    return 77;
  }
  constexpr std::size_t batchSize = 64;
  for (std::size_t next = 0; next < all.size();) {
    std::vector<CaseInfo> batch{all[next]};
    if (!all[next].ownProcess)
      for (std::size_t i = next + 1; i < all.size() && !all[i].ownProcess && batch.size() < batchSize; ++i)
        batch.push_back(all[i]);
    Batch result = runBatch(batch, options);
    if (!result.how.empty()) {
      const std::string name =
          result.stuck.empty() ? batch[std::min(result.results.size(), batch.size() - 1)].name : result.stuck;
      if (!result.results.contains(name)) {
        result.results[name] = "FAILED: " + result.how;
        fmt::print("{:<16} FAILED: {}\n", name, result.how);
      }
    }
    for (const CaseInfo &c : batch) {
      auto it = result.results.find(c.name);
      if (it == result.results.end() && &c == &batch.front()) // every round finishes a case
        throw std::runtime_error(fmt::format("no result of case {}", c.name));
      if (it == result.results.end())
        break;
      ++next;
      results[c.name] = it->second;
      ++(it->second.starts_with("OK") ? passed : it->second.starts_with("SKIPPED") ? skipped : failed);
    }
  }
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed ? 1 : 0;
}

/// The supervisor itself: a case that passes, one that fails, one that dies, one that stalls, one that is
/// skipped, one that checks nothing; the rest goes on after each.
int selfTest(Options options) {
  registry() = {
      {"a-passes", [](Run &run) { run.same(1, 1, "one"); }, false},
      {"b-fails", [](Run &run) { run.same(1, 2, "one"); }, false},
      {"c-dies", [](Run &) { raise(SIGKILL); }, false},
      {"d-exits", [](Run &) { _exit(5); }, false},
      {"e-stalls", [](Run &) { sleep(1000); }, false},
      {"f-is-skipped", [](Run &run) { run.skip("no reason"); }, false},
      {"g-checks-nothing", [](Run &) {}, false},
      {"h-throws", [](Run &) { throw std::runtime_error("thrown"); }, true},
      {"i-passes", [](Run &run) { run.same(qnan, qnan, "NaN"); }, false},
      {"j-fails", [](Run &run) { run.same(0.0f, -0.0f, "zeros"); }, false},
  };
  options.gpu = false;
  options.stallSeconds = 1;
  Tally tally;
  runAll(options, tally);
  const std::map<std::string, std::string> want{
      {"a-passes", "OK"},
      {"b-fails", "FAILED: one[0]: 1/2"},
      {"c-dies", "FAILED: the process was ended by signal 9"},
      {"d-exits", "FAILED: the process ended with status 5"},
      {"e-stalls", "FAILED: stalled for 1 s"},
      {"f-is-skipped", "SKIPPED: no reason"},
      {"g-checks-nothing", "FAILED: nothing was checked"},
      {"h-throws", "FAILED: threw thrown"},
      {"i-passes", "OK"},
      {"j-fails", "FAILED: zeros[0]: 0/-0"},
  };
  const bool right = tally.results == want && tally.passed == 2 && tally.failed == 7 && tally.skipped == 1;
  fmt::print("self-test: {}\n", right ? "OK" : "FAILED");
  return right ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  std::string device = "interpreter";
  CLI::App app{
      "Runs the known cases on the interpreter or a GPU; the last line is `N passed, N failed, N skipped`"};
  app.add_option("--device", device, "interpreter or gpu")->check(CLI::IsMember({"interpreter", "gpu"}));
  app.add_option("--only", options.only, "Names of cases, or their beginnings")->delimiter(',');
  bool checkSelf = false;
  app.add_flag("--self-test", checkSelf, "Check that failing, dying and stalling cases are named");
  app.add_flag("--list", options.list, "Print the names alone");
  app.add_flag("--quick", options.quick, "A tenth of the launches in the long cases");
  options.stallSeconds = 0;
  app.add_flag("--rates", options.rates, "On a GPU, print the rate of each case that measures one");
  app.add_option("--emit-ptx", options.ptxFolder,
                 "Write the kernels of the cases that can do so to this folder, and run nothing of these");
  app.add_option("--stall", options.stallSeconds,
                 "Seconds without a sign of life after which a case is ended");
  CLI11_PARSE(app, argc, argv);
  options.gpu = device == "gpu";
  if (options.stallSeconds <= 0)
    options.stallSeconds = options.gpu ? 20 : 120; // the interpreter shares the processor with others
  setenv("SECTILE_CACHE", "0", 0);
  try {
    Tally tally;
    return checkSelf ? selfTest(options) : runAll(options, tally);
  } catch (const std::exception &e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
