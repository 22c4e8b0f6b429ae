// SPDX-License-Identifier: Apache-2.0
/// \file Random products in worker processes: a crash, a device fault or a hang costs one product, which is
/// named.
#include "tests/generality/RandomProducts.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

using sectile::numerics::Outcome;

namespace generality {
namespace {

struct Options {
  Engine engine = Engine::interpreter;
  std::uint64_t seed = 1;
  std::size_t count = 100;
  int jobs = 0, repeat = 0;
  double stallSeconds = 0;
  bool list = false;
};

struct Tally {
  std::size_t right = 0, wrong = 0, refused = 0;
  std::map<std::string, std::size_t> rules;
};

/// A GPU is asked for in a worker: this process never touches the driver.
bool haveGpu() {
  sectile::numerics::WorkerOptions options;
  const auto answer = sectile::numerics::runInWorkers(1, options, [](std::size_t) {
    return Device::gpuCount() > 0 ? Outcome() : Outcome{Outcome::skipped, "no GPU", false};
  });
  return answer[0].kind == Outcome::passed;
}

std::vector<Product> products(const Options &o) {
  std::vector<Product> all;
  for (std::size_t i = 0; i < o.count; ++i)
    all.push_back(randomProduct(o.seed + i, o.engine == Engine::gpu));
  std::stable_sort(all.begin(), all.end(),
                   [](const Product &x, const Product &y) { return x.work() < y.work(); });
  return all;
}

int run(const Options &o) {
  const std::vector<Product> all = products(o);
  if (o.list) {
    for (const Product &p : all)
      fmt::print("{}\n", p.text());
    return 0;
  }
  if (o.engine == Engine::gpu && !haveGpu()) {
    fmt::print("SKIPPED: {} products on the GPU: no device\n", all.size());
    return 77;
  }
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  auto beat = began;
  Tally tally;
  sectile::numerics::WorkerOptions options;
  options.jobs = o.jobs > 0 ? o.jobs : std::max(1, int(std::thread::hardware_concurrency()) / (o.engine == Engine::gpu ? 2 : 1));
  if (o.repeat)
    options.jobs = 1; // each with the GPU and its own other work
  options.batch = std::clamp<std::size_t>(all.size() / std::size_t(4 * options.jobs), 1, 64);
  options.stallSeconds = o.stallSeconds > 0 ? o.stallSeconds : o.repeat ? 60 : 120;
  options.settled = [&](std::size_t index, const Outcome &outcome) {
    if (outcome.kind == Outcome::passed)
      ++tally.right;
    else if (outcome.kind == Outcome::skipped)
      ++tally.refused, ++tally.rules[outcome.text];
    else
      ++tally.wrong, fmt::print("WRONG {}: {}\n", all[index].text(), outcome.text);
    const auto now = Clock::now();
    if (outcome.kind == Outcome::failed || now - beat > std::chrono::seconds(5)) {
      beat = now;
      fmt::print("{:.0f} s: {} of {}, {} wrong\n", std::chrono::duration<double>(now - began).count(),
                 tally.right + tally.wrong + tally.refused, all.size(), tally.wrong);
      std::fflush(stdout);
    }
  };
  sectile::numerics::runInWorkers(all.size(), options, [&](std::size_t i) {
    return o.repeat ? repeatProduct(all[i], o.repeat) : checkProduct(all[i], o.engine);
  });
  for (const auto &[rule, count] : tally.rules)
    fmt::print("refused by [{}], the schedule chosen by hand: {}\n", rule, count);
  fmt::print("{} right, {} wrong{}\n", tally.right, tally.wrong,
             tally.refused ? fmt::format(", {} refused", tally.refused) : std::string());
  // A handful may ask for more than the target has; more would test nothing.
  return tally.wrong || tally.right < tally.refused * 8 || !tally.right ? 1 : 0;
}

int selfTest(const Options &o) {
  std::size_t seen = 0;
  for (const Product &p : products(o)) {
    const std::string what = blindSpot(p);
    if (!what.empty())
      fmt::print("{}: {} may change\n", p.text(), what);
    seen += what.empty();
  }
  fmt::print("{} of {} products with every change noticed\n", seen, o.count);
  return seen == o.count ? 0 : 1;
}

/// One file of PTX for each variant; its first line says which instruction its code must have and what may spill.
int emitVariants(const std::string &folder, const std::string &arch) {
  const std::vector<Variant> all = productVariants();
  std::atomic<std::size_t> next{0};
  std::atomic<int> failed{0};
  auto work = [&] {
    for (std::size_t i; (i = next++) < all.size();)
      try {
        const std::string text = emitProduct(all[i].product, "ptx", arch.c_str());
        std::ofstream(folder + "/" + all[i].name + ".ptx")
            << fmt::format("// expects {}, spills at most {} bytes\n", all[i].expect ? all[i].expect : "nothing",
                           all[i].spillBytes)
            << text;
      } catch (const std::exception &e) {
        fmt::print("{}: {}\n", all[i].name, e.what());
        ++failed;
      }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  for (std::thread &t : threads)
    t.join();
  fmt::print("{} variants, {} failed\n", all.size(), failed.load());
  return failed ? 1 : 0;
}

} // namespace

int productsMain(int argc, char **argv, Executor threads) {
  Options options;
  std::string device = threads ? "executor" : "interpreter";
  CLI::App app{"Random products against sums in double; the last line is `N right, N wrong`"};
  app.add_option("--device", device, "interpreter, executor (sectile_whitebox) or gpu")
      ->check(CLI::IsMember({"interpreter", "executor", "gpu"}));
  app.add_option("--count", options.count, "Products (100)");
  app.add_option("--seed", options.seed, "Seed of the first; each next one has the next seed (1)");
  app.add_option("--repeat", options.repeat,
                 "On a GPU: each product so many times, bit for bit, while another stream is busy");
  app.add_option("--jobs", options.jobs, "Processes at a time (one per processor, half of that on a GPU)");
  app.add_option("--stall", options.stallSeconds, "Seconds without an end of a product, after which it is given up");
  std::string folder, arch = "sm_90a";
  app.add_option("--emit-ptx", folder, "Write the PTX of products of every type, major, tile and schedule to this folder");
  app.add_option("--arch", arch, "Target of --emit-ptx (sm_90a)");
  bool checkSelf = false;
  app.add_flag("--self-test", checkSelf, "Check that wrong bytes are noticed, on the interpreter");
  app.add_flag("--list", options.list, "Print the products alone");
  CLI11_PARSE(app, argc, argv);
  options.engine = device == "gpu" ? Engine::gpu : device == "executor" ? Engine::executor : Engine::interpreter;
  if (options.engine == Engine::executor && !threads) {
    fmt::print(stderr, "the executor is part of sectile_whitebox: sectile_whitebox products\n");
    return 2;
  }
  if (options.repeat && options.engine != Engine::gpu) {
    fmt::print(stderr, "--repeat needs --device=gpu\n");
    return 2;
  }
  if (!folder.empty())
    return emitVariants(folder, arch);
  executor() = threads;
  setenv("SECTILE_CACHE", "0", 0);
  try {
    return checkSelf ? selfTest(options) : run(options);
  } catch (const std::exception &e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}

} // namespace generality
