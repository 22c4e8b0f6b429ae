// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products: bf16, fp16, tf32; each operand stored along K or across.
#include "samples/04_matmul/kernels.h"
#include "tests/perf/Bench.h"

#include <fmt/format.h>

namespace bench {
namespace {

using namespace sectile;

struct Shape {
  std::int64_t m, n, k;
  std::string str() const { return fmt::format("{}x{}x{}", m, n, k); }
};

/// A row of random signs, the same on every call.
std::vector<double> signs(std::int64_t count) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < count; ++i) {
    float a, b;
    normalPair(99, static_cast<std::uint64_t>(i), a, b);
    v.push_back(a < 0 ? -1 : 1);
  }
  return v;
}

/// x times v for x of rows x cols, stored by rows or (`across`) by columns; visit(row, element) sees all
/// elements.
template <class T, class F>
std::vector<double> timesVector(const std::vector<T> &x, std::int64_t rows, std::int64_t cols, bool across,
                                const std::vector<double> &v, F visit) {
  std::vector<double> result(static_cast<std::size_t>(rows));
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    auto add = [&](std::int64_t r, std::int64_t c) {
      const double e = double(x[static_cast<std::size_t>(across ? c * rows + r : r * cols + c)]);
      result[static_cast<std::size_t>(r)] += e * v[static_cast<std::size_t>(c)];
      visit(r, e);
    };
    if (across)
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t r = begin; r < end; ++r)
          add(r, c);
    else
      for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          add(r, c);
  });
  return result;
}

/// Checks every element of C against A B in O(M N + M K + N K): for a vector v of random signs the
/// expectation of
/// ((C - A B) v)^2, row by row, is the squared norm of the row's error. Gives the relative error over all
/// rows, and infinity if one row alone is off by ten times the tolerance, as one wrong tile makes it.
template <class T> class ProductCheck {
public:
  ProductCheck(const std::vector<T> &a, const std::vector<T> &b, Shape s, bool ta, bool tb, double tolerance)
      : shape(s), tolerance(tolerance), v(signs(s.n)), norms(static_cast<std::size_t>(s.m)) {
    const std::vector<double> bv = timesVector(b, s.k, s.n, tb, v, [](std::int64_t, double) {});
    product = timesVector(a, s.m, s.k, ta, bv,
                          [&](std::int64_t m, double e) { norms[static_cast<std::size_t>(m)] += e * e; });
    for (double &norm : norms)
      norm *= static_cast<double>(s.n); // of A's row times standard normal columns
  }
  double error(const std::vector<T> &c) const {
    return relativeError(shape.m, [&](std::int64_t m, double &errors, double &references) {
      double sum = 0;
      for (std::int64_t n = 0; n < shape.n; ++n)
        sum += double(c[static_cast<std::size_t>(m * shape.n + n)]) * v[static_cast<std::size_t>(n)];
      double e = sum - product[static_cast<std::size_t>(m)], norm = norms[static_cast<std::size_t>(m)];
      errors += e * e <= 100 * tolerance * tolerance * norm ? e * e : std::numeric_limits<double>::infinity();
      references += norm;
    });
  }

private:
  Shape shape;
  double tolerance;
  std::vector<double> v, product, norms;
};

struct Choice {
  int m, n, k, warps, stages;
};

/// What is tried for a shape, behind the default; `k` is for 16-bit elements.
std::vector<Choice> choices(Shape s) {
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

/// "BM=128,warps=8": numbers of the kernel, and fields of Config.
Config parseConfig(const std::string &text) {
  Config config;
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
                                     : nullptr;
    if (field)
      *field = value;
    else
      config.set(name, value);
    at = comma + 1;
  }
  return config;
}

std::vector<Config> configs(const Options &options, Shape s, std::size_t elementBytes) {
  std::vector<Config> all;
  for (const std::string &text : options.configs)
    all.push_back(parseConfig(text));
  if (!all.empty())
    return all;
  all.emplace_back();
  for (const Choice &c : choices(s)) {
    Config config;
    config.set("BM", c.m).set("BN", c.n).set("BK", elementBytes == 4 ? c.k / 2 : c.k);
    config.warps = c.warps;
    config.stages = c.stages;
    all.push_back(config);
  }
  return all;
}

template <class T, bool TA, bool TB, MmaPolicy policy>
void productCase(Gpu &gpu, Output &out, const Options &options, LineInfo info, Shape s, double tolerance) {
  const std::int64_t bytes = std::int64_t(sizeof(T)) * (s.m * s.k + s.k * s.n + s.m * s.n);
  const int sets = bytes < (std::int64_t(200) << 20) ? 3 : 2;
  // The sets hold the same numbers, each in memory of its own.
  const std::vector<T> x = normal<T>(s.m * s.k, 50), y = normal<T>(s.k * s.n, 60);
  std::vector<Buffer<T>> a, b, c;
  for (int i = 0; i < sets; ++i) {
    a.emplace_back(gpu.stream(), TA ? s.k : s.m, TA ? s.m : s.k);
    b.emplace_back(gpu.stream(), TB ? s.n : s.k, TB ? s.k : s.n);
    c.emplace_back(gpu.stream(), s.m, s.n);
    a.back().copyFrom(x);
    b.back().copyFrom(y);
  }
  const ProductCheck<T> check(x, y, s, TA, TB, tolerance);
  Case test;
  test.info = std::move(info);
  test.sets = sets;
  test.tolerance = tolerance;
  test.poison = [&] { c[0].fillBytes(0xFF); };
  test.error = [&] { return check.error(c[0].toHost()); };
  for (const Config &config : configs(options, s, sizeof(T)))
    test.candidates.push_back(
        {nameOf(config), [&, config] {
           std::vector<Call> calls;
           for (std::size_t i = 0; i < c.size(); ++i)
             calls.emplace_back(sample::matmulOf<T, TA, TB, policy>.with(config).prepare(a[i], b[i], c[i]));
           return calls;
         }});
  runCase(gpu, out, options, test);
}

/// The suite while it runs: what is left of its time.
struct GemmBench {
  Gpu &gpu;
  Output &out;
  const Options &options;
  double end;
  bool saidOver = false;

  /// Every shape in one type and layout.
  template <class T, bool TA, bool TB, MmaPolicy policy = MmaPolicy::exact>
  void rows(const std::string &dtype, double tolerance, const std::vector<Shape> &shapes) {
    const std::string op = fmt::format("gemm_{}{}", TA ? 't' : 'n', TB ? 't' : 'n');
    for (const Shape &s : shapes) {
      if (!options.wants(fmt::format("{}/{}/{}", op, dtype, s.str())))
        continue;
      if (options.budget > 0 && nowMicros() > end) {
        if (!saidOver)
          out.say(fmt::format("the budget of {} s is used up: from {} {} {} on, shapes are left out",
                              options.budget, op, dtype, s.str()));
        saidOver = true;
        return;
      }
      LineInfo info{.suite = "gemm", .op = op, .dtype = dtype, .shape = s.str()};
      info.flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
      try {
        productCase<T, TA, TB, policy>(gpu, out, options, info, s, tolerance);
      } catch (const std::exception &e) {
        out.failed(fmt::format("{} {} {}", op, dtype, s.str()), e.what());
      }
    }
  }
};

} // namespace

void gemmSuite(Gpu &gpu, Output &out, const Options &options) {
  GemmBench bench{gpu, out, options, nowMicros() + options.budget * 1e6};
  const Shape unaligned{4095, 4097, 4099};
  const std::vector<Shape> all = {{8192, 8192, 8192},  {4096, 4096, 4096},  {8192, 28672, 8192},
                                  {8192, 8192, 28672}, {4096, 14336, 4096}, {2048, 2048, 2048},
                                  {1024, 1024, 1024},  {16, 8192, 8192},    {64, 8192, 8192},
                                  {128, 4096, 4096},   {1000, 1000, 1000}};
  std::vector<Shape> quick = {all[0], all[1], all[6], all[7], all[10]};
  std::vector<Shape> bf16Shapes = options.quick ? quick : all;
  bf16Shapes.push_back(unaligned);
  bench.rows<bf16, false, true>("bf16", 6e-3, bf16Shapes);
  bench.rows<bf16, false, false>("bf16", 6e-3, bf16Shapes);
  if (!options.quick) {
    bench.rows<f16, false, true>("fp16", 1.5e-3, all);
    bench.rows<f16, false, false>("fp16", 1.5e-3, {all.begin(), all.begin() + 5});
  }
  std::vector<Shape> tf32Shapes = {all[1]};
  if (!options.quick)
    tf32Shapes.push_back(all[0]);
  bench.rows<f32, false, true, MmaPolicy::tf32>("tf32", 2e-3, tf32Shapes);
  bench.rows<f32, false, false, MmaPolicy::tf32>("tf32", 2e-3, tf32Shapes);
  // The other two majors have no peer: they show what a layout costs.
  bench.rows<bf16, true, false>("bf16", 6e-3, {all[1]});
  bench.rows<bf16, true, true>("bf16", 6e-3, {all[1]});
}

} // namespace bench
