// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products: which configurations are tried for the rows of
/// BenchProducts, and their measuring.
#include "tests/perf/BenchProducts.h"

#include <fmt/format.h>

namespace bench {

sectile::Config parseConfig(const std::string &text) {
  sectile::Config config;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
    if (equals >= comma)
      throw std::runtime_error(fmt::format("'{}' is no list of NAME=NUMBER", text));
    const std::string name = text.substr(at, equals - at);
    const int value = std::stoi(text.substr(equals + 1, comma - equals - 1));
    int *field = name == "warps"     ? &config.warps
                 : name == "stages"  ? &config.stages
                 : name == "cluster" ? &config.cluster
                 : name == "raster"  ? &config.raster
                 : name == "split"   ? &config.split
                 : name == "repack"  ? &config.repack
                 : name == "blocks"  ? &config.blocks
                 : name == "async" ? &config.async
                 : name == "pingpong" ? &config.pingpong
                 : name == "multicast" ? &config.multicast
                 : name == "snake" ? &config.snake
                 : name == "streamk" ? &config.streamk
                 : name == "overlap" ? &config.overlap
                 : name == "persistent" ? &config.persistent
                 : name == "prefetch" ? &config.prefetch
                 : name == "evict" ? &config.evict
                 : name == "keep" ? &config.keep
                                     : nullptr;
    if (field)
      *field = value;
    else
      config.set(name, value);
    at = comma + 1;
  }
  return config;
}

namespace {

using namespace sectile;

struct Choice {
  int m, n, k, warps, stages;
};

/// What is tried for a shape, behind the default; `k` is for 16-bit elements.
std::vector<Choice> choices(Shape s, int products) {
  if (products == 2 && s.m > 64) // each has its own sums
    return {{128, 128, 64, 8, 0},
            {128, 128, 64, 8, 4},
            {256, 64, 64, 8, 0},
            {64, 128, 64, 4, 0},
            {128, 64, 64, 4, 0}};
  if (s.m <= 16)
    return {{16, 64, 128, 4, 0}, {16, 128, 128, 4, 0}, {16, 32, 256, 4, 0}, {16, 64, 256, 4, 0},
            {64, 64, 128, 4, 0}, {64, 32, 128, 4, 0},  {64, 128, 64, 4, 0}};
  if (s.m <= 64)
    return {{64, 64, 128, 4, 0}, {64, 64, 128, 4, 5}, {64, 32, 128, 4, 0},
            {64, 64, 64, 4, 0},  {64, 64, 64, 4, 8},  {64, 128, 128, 4, 0}};
  if (s.m <= 128)
    return {{64, 64, 128, 4, 0},  {64, 64, 128, 4, 4}, {128, 64, 64, 4, 0},
            {128, 64, 128, 8, 0}, {128, 64, 64, 8, 6}, {64, 32, 128, 4, 0}};
  if (s.m * s.n <= 1100 * 1100)
    return {{128, 128, 64, 8, 0}, {128, 128, 64, 4, 0}, {64, 128, 64, 4, 0},
            {128, 64, 64, 4, 0},  {64, 64, 64, 4, 0},   {64, 64, 128, 4, 0}};
  return {{128, 256, 64, 8, 4}, {128, 256, 64, 8, 3}, {256, 128, 64, 8, 4},
          {256, 128, 64, 8, 3}, {256, 192, 64, 8, 3}, {128, 192, 64, 8, 4},
          {128, 128, 64, 8, 0}, {128, 128, 64, 4, 0}, {64, 256, 64, 4, 4}};
}

std::vector<Config> configs(const Options &options, const ProductRows &rows, Shape s) {
  std::vector<Config> all;
  for (const std::string &text : options.configs)
    all.push_back(parseConfig(text));
  if (!all.empty())
    return all;
  all.emplace_back();
  for (const Choice &c : choices(s, rows.products)) {
    Config config;
    config.set("BM", c.m).set("BN", c.n).set("BK", c.k * 2 / static_cast<int>(rows.elementBytes));
    config.warps = c.warps;
    config.stages = c.stages;
    all.push_back(config);
  }
  return all;
}

void measure(Gpu &gpu, Output &out, const Options &options, const ProductRows &rows, Shape s) {
  const ProductRow row = rows.make(gpu.stream(), s);
  Case test;
  test.info = {.suite = "gemm", .op = rows.op, .dtype = rows.dtype, .shape = s.str()};
  test.info.flops =
      2.0 * rows.products * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  test.sets = row.sets;
  test.tolerance = rows.tolerance;
  test.poison = row.poison;
  test.error = [&] { return row.error(false); };
  for (const Config &config : configs(options, rows, s))
    test.candidates.push_back({nameOf(config), [&, config] {
                                 std::vector<Call> calls;
                                 for (int i = 0; i < row.sets; ++i)
                                   calls.push_back(row.prepare(config, i));
                                 return calls;
                               }});
  runCase(gpu, out, options, test);
}

} // namespace

void gemmSuite(Gpu &gpu, Output &out, const Options &options) {
  const double end = nowMicros() + options.budget * 1e6;
  bool saidOver = false;
  for (const ProductRows &rows : productRows(options.quick))
    for (const Shape &s : rows.shapes) {
      const std::string what = fmt::format("{} {} {}", rows.op, rows.dtype, s.str());
      if (!options.wants(fmt::format("{}/{}/{}", rows.op, rows.dtype, s.str())))
        continue;
      if (options.budget > 0 && nowMicros() > end) {
        if (!saidOver)
          out.say(fmt::format("the budget of {} s is used up: from {} on, shapes are left out",
                              options.budget, what));
        saidOver = true;
        break;
      }
      try {
        measure(gpu, out, options, rows, s);
      } catch (const std::exception &e) {
        out.failed(what, e.what());
      }
    }
}

void gemmChecks(Output &out, const Options &options) {
  const sectile::Stream stream = sectile::Device::interpreter().stream();
  const Shape s{70, 48, 96};
  int checked = 0;
  for (const ProductRows &rows : productRows(false)) {
    const std::string what = fmt::format("{} {} {} on the interpreter", rows.op, rows.dtype, s.str());
    if (!options.wants(fmt::format("{}/{}/{}", rows.op, rows.dtype, s.str())))
      continue;
    try {
      const ProductRow row = rows.make(stream, s);
      row.poison();
      row.prepare(Config(), 0)(stream);
      stream.synchronize();
      const double error = row.error(false), spoiled = row.error(true);
      if (!(error <= rows.tolerance))
        out.failed(what, fmt::format("relative error {:.3e} is over {:.1e}", error, rows.tolerance));
      if (spoiled <= rows.tolerance)
        out.failed(what, fmt::format("a wrong element goes unnoticed: relative error {:.3e}", spoiled));
      ++checked;
    } catch (const std::exception &e) {
      out.failed(what, e.what());
    }
  }
  out.say(fmt::format("{} kinds of products checked at {} on the interpreter", checked, s.str()));
}

} // namespace bench
