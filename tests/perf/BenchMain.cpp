// SPDX-License-Identifier: Apache-2.0
/// \file `sectile-bench`: measures the library by a fixed protocol and prints a JSON line per measurement.
#include "tests/perf/Bench.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

namespace bench {

namespace {

/// Clock, power and temperature as nvidia-smi tells them; empty without it.
std::string clocks() {
  std::FILE *pipe = popen(
      "nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader -i 0 "
      "2>/dev/null",
      "re");
  if (!pipe)
    return {};
  std::array<char, 200> text{};
  std::string line = std::fgets(text.data(), text.size(), pipe) ? text.data() : "";
  pclose(pipe);
  line.erase(line.find_last_not_of("\n") + 1);
  return line;
}

void environmentLine(Gpu &gpu, Output &out, const std::string &suite) {
  const sectile::DeviceProperties &p = gpu.device().properties();
  nlohmann::ordered_json json = {
      {"suite", suite}, {"op", "env"}, {"dtype", "-"}, {"shape", "-"}, {"impl", "env"}};
  json["ms_median"] = nullptr;
  json["ms_min"] = nullptr;
  json["notes"] = fmt::format("gpu={} arch={} sms={} l2={}MB driver={} sectile={} clocks=[{}]",
                              gpu.device().name(), gpu.device().arch(), p.multiprocessors, p.l2Bytes >> 20,
                              p.driverVersion, SECTILE_VERSION, clocks());
  out.line(json);
  LineInfo info{.suite = suite,
                .op = "empty_window",
                .dtype = "-",
                .shape = "-",
                .impl = "events_only",
                .notes = "two events, nothing between; not subtracted anywhere"};
  printTiming(out, info, Timing(gpu.samples([](int) {}, 100, 1, 6)));
}

int run(const Options &options) {
  Output out(options.out);
  auto has = [&](const char *suite) {
    return std::find(options.suites.begin(), options.suites.end(), suite) != options.suites.end();
  };
  if (has("latency"))
    compileSuite(out, options);
  if (sectile::Device::gpuCount() == 0) {
    if (has("gemm"))
      gemmChecks(out, options);
    if (has("attention") || has("decode"))
      attentionChecks(out, options);
    out.say("no usable GPU: everything that runs on one is skipped");
    return out.failures() || !options.allowNoGpu ? 1 : 0;
  }
  Gpu gpu;
  using Suite = void (*)(Gpu &, Output &, const Options &);
  for (auto [name, suite] : {std::pair<const char *, Suite>{"latency", launchSuite},
                             {"memory", memorySuite},
                             {"gemm", gemmSuite},
                             {"attention", attentionSuite},
                             {"decode", decodeSuite}}) {
    if (!has(name))
      continue;
    environmentLine(gpu, out, name);
    suite(gpu, out, options);
  }
  if (has("latency"))
    firstRunSuite(out, options);
  return out.failures() ? 1 : 0;
}

} // namespace
} // namespace bench

int main(int argc, char **argv) {
  bench::Options options;
  std::string child;
  options.suites = {"memory", "gemm", "attention", "decode", "latency"};
  CLI::App app{"Measures Sectile on this machine's first GPU; prints one JSON object per measurement",
               "sectile-bench"};
  app.add_option("--suite", options.suites, "What to measure")
      ->delimiter(',')
      ->check(CLI::IsMember({"memory", "gemm", "attention", "decode", "latency"}));
  app.add_option(
         "--only", options.only,
         "Only operations whose name contains one of these; of products also gemm_nt/bf16/4096x4096x4096")
      ->delimiter(',');
  app.add_option("--rounds", options.rounds, "Alternated rounds of every ratio")
      ->check(CLI::Range(5, 1000))
      ->capture_default_str();
  app.add_option("--budget", options.budget,
                 "Seconds of each suite but latency, later shapes are left out; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--config", options.configs,
                 "These instead of the lists, as BM=128,BN=256,BK=64,warps=8,stages=4");
  app.add_option("--out", options.out, "Also write the JSON lines to this file");
  app.add_flag("--quick", options.quick, "Fewer shapes, half the samples, default configurations");
  app.add_flag("!--no-tune", options.tune, "Default configurations instead of the best of a list");
  app.add_flag("--candidates", options.candidates, "Also say what each candidate of a list takes");
  app.add_flag("--turns", options.turns,
               "After each line wait on standard input: \"again\" measures again, anything else goes on");
  app.add_flag("--allow-no-gpu", options.allowNoGpu, "Without a GPU, end with 0 after what needs none");
  app.add_option("--child", child, "For the program itself")
      ->group("")
      ->check(CLI::IsMember({"process", "warm"}));
  app.footer("Exit status: 0 done; 1 something was wrong, failed or had no GPU; 2 a command line that is not "
             "described here.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    if (!child.empty())
      return bench::firstRuns(child);
    options.program = std::filesystem::read_symlink("/proc/self/exe").string();
    return bench::run(options);
  } catch (const std::exception &e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
