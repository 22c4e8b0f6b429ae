// SPDX-License-Identifier: Apache-2.0
/// \file Kernels whose speed is that of memory: how their cases are run. Rates count the fewest bytes: every
/// input once, every output once.
#include "tests/perf/BenchMemory.h"

#include <fmt/format.h>

namespace bench {

/// What --config asks for, instead of the lists.
static std::vector<sectile::Config> byHand;

MemoryBench::MemoryBench(Gpu &gpu, Output &out, const Options &options)
    : gpu(gpu), out(out), options(options), endMicros(nowMicros() + options.budget * 1e6) {
  for (const std::string &text : options.configs)
    byHand.push_back(parseConfig(text));
}

const Pool<sectile::bf16> &MemoryBench::noise() {
  if (!normalPool)
    normalPool = std::make_unique<Pool<sectile::bf16>>(gpu, 1, 1);
  return *normalPool;
}
const Pool<sectile::bf16> &MemoryBench::wideNoise() {
  if (!widePool)
    widePool = std::make_unique<Pool<sectile::bf16>>(gpu, 2, 2);
  return *widePool;
}
const Pool<sectile::f32> &MemoryBench::noiseF32() {
  if (!f32Pool)
    f32Pool = std::make_unique<Pool<sectile::f32>>(gpu, 1, 3);
  return *f32Pool;
}

Best MemoryBench::run(Case c, Checks checks, bool ratio) {
  c.poison = [&] {
    for (auto &check : checks)
      check->poison();
  };
  c.error = [&] {
    double worst = 0;
    for (auto &check : checks)
      worst = std::max(worst, check->error());
    return worst;
  };
  c.tolerance = std::numeric_limits<double>::max(); // each output has its own
  LineInfo info = c.info;
  int sets = c.sets;
  Best best = runCase(gpu, out, options, std::move(c));
  if (ratio && !best.calls.empty() && info.bytes >= (64 << 20))
    ratioToCopy(info, sets, best.calls);
  return best;
}

void MemoryBench::ratioToCopy(const LineInfo &info, int sets, const std::vector<Call> &calls) {
  // A copy reads half of its bytes and writes the other.
  const auto half = static_cast<std::int64_t>(info.bytes / 2);
  std::vector<sectile::Buffer<std::uint8_t>> from = outputs<std::uint8_t>(gpu, sets, {half}),
                                             to = outputs<std::uint8_t>(gpu, sets, {half});
  for (std::size_t s = 0; s < from.size(); ++s)
    noise().fill(from[s].data(), half / 2, static_cast<std::int64_t>(s) * 30'000'001);
  const Driver &driver = gpu.driver();
  auto copy = [&](int s) {
    auto i = static_cast<std::size_t>(s);
    driver.check(driver.cuMemcpyDtoDAsync(reinterpret_cast<std::uint64_t>(to[i].data()),
                                          reinterpret_cast<std::uint64_t>(from[i].data()),
                                          static_cast<std::size_t>(half), gpu.native()),
                 "cuMemcpyDtoDAsync");
  };
  auto run = [&](int s) { calls[static_cast<std::size_t>(s)](gpu.stream()); };
  if (copiesPrinted.insert(half).second)
    printTiming(out,
                {.suite = "memory",
                 .op = "copy_driver",
                 .dtype = "bytes",
                 .shape = fmt::format("{}", half),
                 .impl = "cuMemcpyDtoDAsync",
                 .bytes = info.bytes},
                gpu.measure(copy, sets, options.quick));
  std::vector<double> ratios;
  for (int r = 0; r < options.rounds; ++r) {
    double first = gpu.roughMillis(r % 2 ? std::function<void(int)>(copy) : run, sets, 25);
    double second = gpu.roughMillis(r % 2 ? std::function<void(int)>(run) : copy, sets, 25);
    ratios.push_back(r % 2 ? first / second : second / first);
  }
  printRatio(out,
             {.suite = "memory",
              .op = "ratio",
              .dtype = info.dtype,
              .shape = fmt::format("{}_{}/copy", info.op, info.shape)},
             ratios, "rate of the operation over that of the driver's copy of the same bytes");
}

void MemoryBench::attempt(const std::string &op, const std::string &shape,
                          const std::function<void()> &body) {
  if (!options.wants(op + "/" + shape))
    return;
  if (options.budget > 0 && nowMicros() > endMicros) {
    if (!saidOver)
      out.say(fmt::format("the budget of {} s is used up: from {} {} on, shapes are left out", options.budget,
                          op, shape));
    saidOver = true;
    return;
  }
  try {
    body();
  } catch (const std::exception &e) {
    out.failed(op + " " + shape, e.what());
  }
}

std::vector<sectile::Config> product(std::vector<std::pair<const char *, std::vector<int>>> picks,
                                     std::vector<int> warps) {
  if (!byHand.empty())
    return byHand;
  std::vector<sectile::Config> all{sectile::Config()};
  for (auto &[name, values] : picks) {
    std::vector<sectile::Config> more;
    for (const sectile::Config &config : all)
      for (int v : values)
        more.push_back(sectile::Config(config).set(name, v));
    all = std::move(more);
  }
  std::vector<sectile::Config> result{sectile::Config()};
  for (const sectile::Config &config : all)
    for (int w : warps) {
      result.push_back(config);
      result.back().warps = w;
    }
  return result;
}

std::vector<sectile::Config> wholeRows(std::int64_t cols) {
  if (!byHand.empty())
    return byHand;
  std::int64_t length = 16;
  while (length < cols)
    length *= 2;
  std::vector<sectile::Config> result{sectile::Config()};
  auto add = [&](int rows, int warps, int cluster) {
    std::int64_t elements = rows * length / (32 * warps * std::max(cluster, 1));
    if (elements < 8 || elements > 64)
      return;
    result.push_back(sectile::Config().set("BR", rows));
    result.back().warps = warps;
    result.back().cluster = cluster;
  };
  for (int warps : {1, 2, 4, 8, 16, 32})
    if (length <= 8192)
      for (int rows : {1, 2, 4, 8, 16})
        add(rows, warps, 0);
    else
      for (int cluster : {1, 2, 4, 8})
        add(1, warps, cluster);
  return result;
}

std::vector<sectile::Config> columnStrips() {
  if (!byHand.empty())
    return byHand;
  std::vector<sectile::Config> result{sectile::Config()};
  for (int rows : {8, 16, 32, 64})
    for (int cols : {64, 128, 256})
      for (int warps : {4, 8})
        for (int split : {0, 16, 64}) {
          if (int elements = rows * cols / (32 * warps); elements < 8 || elements > 32)
            continue;
          result.push_back(sectile::Config().set("BR", rows).set("BC", cols));
          result.back().warps = warps;
          result.back().split = split;
        }
  return result;
}

std::string str(Shape shape) { return fmt::format("{}x{}", shape.first, shape.second); }

void memorySuite(Gpu &gpu, Output &out, const Options &options) {
  MemoryBench bench(gpu, out, options);
  copyAndAddCases(bench);
  softmaxCases(bench);
  normCases(bench);
  crossEntropyCases(bench);
  fusionCases(bench);
  quantiseCases(bench);
  moveAndSumCases(bench);
  normBackwardCases(bench);
  viewCases(bench);
}

} // namespace bench
