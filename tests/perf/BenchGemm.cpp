// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products C = A B in bf16.
#include "tests/perf/Bench.h"
#include "tests/perf/BenchKernels.h"

#include <fmt/format.h>

namespace bench {
namespace {

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

/// Checks every element of C against A B in O(M N + M K + N K): for a vector v of random signs the
/// expectation of
/// ((C - A B) v)^2, row by row, is the squared norm of the row's error. Gives the relative error over all
/// rows, and infinity if one row alone is off by ten times the tolerance, as one wrong tile makes it.
class ProductCheck {
public:
  ProductCheck(const std::vector<bf16> &a, const std::vector<bf16> &b, Shape s, double tolerance)
      : shape(s), tolerance(tolerance), v(signs(s.n)), product(static_cast<std::size_t>(s.m)),
        norms(static_cast<std::size_t>(s.m)) {
    std::vector<double> bv(static_cast<std::size_t>(s.k));
    parallel(s.k, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        double sum = 0;
        for (std::int64_t n = 0; n < s.n; ++n)
          sum += double(b[static_cast<std::size_t>(k * s.n + n)]) * v[static_cast<std::size_t>(n)];
        bv[static_cast<std::size_t>(k)] = sum;
      }
    });
    parallel(s.m, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t m = begin; m < end; ++m) {
        double sum = 0, squares = 0;
        for (std::int64_t k = 0; k < s.k; ++k) {
          double x = double(a[static_cast<std::size_t>(m * s.k + k)]);
          sum += x * bv[static_cast<std::size_t>(k)];
          squares += x * x;
        }
        product[static_cast<std::size_t>(m)] = sum;
        norms[static_cast<std::size_t>(m)] =
            squares * static_cast<double>(s.n); // of A's row times standard normal columns
      }
    });
  }
  double error(const std::vector<bf16> &c) const {
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

void productCase(Gpu &gpu, Output &out, const Options &options, Shape s) {
  const int sets = 2;
  std::vector<Buffer<bf16>> a, b, c;
  std::optional<ProductCheck> check;
  const double tolerance = 6e-3;
  for (int i = 0; i < sets; ++i) {
    a.emplace_back(gpu.stream(), s.m, s.k);
    b.emplace_back(gpu.stream(), s.k, s.n);
    c.emplace_back(gpu.stream(), s.m, s.n);
    std::vector<bf16> x = normal<bf16>(s.m * s.k, 50 + static_cast<std::uint64_t>(i));
    std::vector<bf16> y = normal<bf16>(s.k * s.n, 60 + static_cast<std::uint64_t>(i));
    a.back().copyFrom(x);
    b.back().copyFrom(y);
    if (i == 0)
      check.emplace(x, y, s, tolerance);
  }
  Case test;
  test.info = {.suite = "gemm",
               .op = "gemm_nn",
               .dtype = "bf16",
               .shape = s.str(),
               .flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k)};
  test.sets = sets;
  test.tolerance = tolerance;
  test.poison = [&] { c[0].fillBytes(0xFF); };
  test.error = [&] { return check->error(c[0].toHost()); };
  struct Tile {
    int m, n, k, warps;
  };
  for (Tile t : {Tile{0, 0, 0, 0},
                 {128, 128, 64, 4},
                 {128, 128, 64, 8},
                 {128, 256, 64, 8},
                 {256, 128, 64, 8},
                 {64, 128, 64, 4},
                 {64, 64, 64, 4},
                 {128, 128, 128, 8},
                 {64, 64, 128, 4},
                 {16, 64, 128, 4}}) {
    Config config;
    if (t.m)
      config.set("BM", t.m).set("BN", t.n).set("BK", t.k).warps = t.warps;
    test.candidates.push_back({nameOf(config), [&, config] {
                                 std::vector<Call> calls;
                                 for (std::size_t i = 0; i < c.size(); ++i)
                                   calls.emplace_back(matmul.with(config).prepare(a[i], b[i], c[i]));
                                 return calls;
                               }});
  }
  runCase(gpu, out, options, test);
}

} // namespace

void gemmSuite(Gpu &gpu, Output &out, const Options &options) {
  if (!options.wants("gemm_nn"))
    return;
  std::vector<Shape> shapes = {
      {4096, 4096, 4096},  {8192, 8192, 8192}, {2048, 2048, 2048}, {1024, 1024, 1024}, {1000, 1000, 1000},
      {4096, 14336, 4096}, {16, 8192, 8192},   {64, 8192, 8192},   {128, 4096, 4096},  {4095, 4097, 4099}};
  if (options.quick)
    shapes.resize(2);
  for (const Shape &s : shapes) {
    try {
      productCase(gpu, out, options, s);
    } catch (const std::exception &e) {
      out.failed("gemm_nn bf16 " + s.str(), e.what());
    }
  }
}

} // namespace bench
