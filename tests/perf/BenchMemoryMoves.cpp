// SPDX-License-Identifier: Apache-2.0
/// \file The memory suite's kernels without reductions over rows, and its sums.
#include "samples/08_transpose/kernels.h"
#include "samples/09_sums/kernels.h"
#include "samples/12_rotary/kernels.h"
#include "samples/13_silu_mul/kernels.h"
#include "tests/perf/BenchKernels.h"
#include "tests/perf/BenchMemory.h"

#include <fmt/format.h>

namespace bench {
namespace {

/// Elements of a vector that count as one row when it is checked.
constexpr std::int64_t vectorRow = 4096;

std::vector<Config> blockCandidates() { return product({{"B", {1024, 2048, 4096, 8192}}}, {4, 8}); }

void copyCase(MemoryBench &bench, std::int64_t n) {
  const double bytes = 2.0 * 2 * static_cast<double>(n);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "copy", .dtype = "bf16", .shape = fmt::format("{}", n), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {n / vectorRow, vectorRow}, 1);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {n});
  addCandidates(c, blockCandidates(), [&](const Config &config, std::size_t s) {
    return sample::copy.with(config).prepare(Tensor<const bf16, 1>(x[s].data(), {n}), y[s]);
  });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], n / vectorRow, 0,
      [&](std::int64_t r, std::span<double> want) { std::ranges::copy(x.row(r), want.begin()); }));
  bench.run(std::move(c), std::move(checks), true);
}

template <class T, class K>
void addCase(MemoryBench &bench, const K &add, const Pool<T> &pool, std::int64_t n, const char *dtype,
             double tolerance) {
  const double bytes = 3.0 * sizeof(T) * static_cast<double>(n);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "add", .dtype = dtype, .shape = fmt::format("{}", n), .bytes = bytes};
  Input<T> x(bench.gpu, pool, c.sets, {n / vectorRow, vectorRow}, 2),
      y(bench.gpu, pool, c.sets, {n / vectorRow, vectorRow}, 3);
  std::vector<Buffer<T>> z = outputs<T>(bench.gpu, c.sets, {n});
  addCandidates(c, blockCandidates(), [&](const Config &config, std::size_t s) {
    return add.with(config).prepare(Tensor<const T, 1>(x[s].data(), {n}),
                                    Tensor<const T, 1>(y[s].data(), {n}), z[s]);
  });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<T>>(
      bench.gpu, z[0], n / vectorRow, tolerance, [&](std::int64_t r, std::span<double> want) {
        std::ranges::transform(x.row(r), y.row(r), want.begin(), std::plus<>());
      }));
  bench.run(std::move(c), std::move(checks), true);
}

void ropeCase(MemoryBench &bench, std::int64_t T, std::int64_t H, std::int64_t D) {
  const auto half = static_cast<std::size_t>(D / 2);
  const double elements = static_cast<double>(T * H * D),
               bytes = 2 * elements * 2 + 2.0 * double(T * D / 2) * 4;
  Case c;
  c.sets = 2;
  c.info = {.suite = "memory",
            .op = "rope_fwd",
            .dtype = "bf16",
            .shape = fmt::format("T{}_H{}_D{}", T, H, D),
            .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {T, H, D}, 4);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {T, H, D});
  std::vector<float> cosines(static_cast<std::size_t>(T) * half), sines(cosines.size());
  parallel(T, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::size_t d = 0; d < half; ++d) {
        double angle =
            static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(d) / static_cast<double>(half));
        cosines[static_cast<std::size_t>(t) * half + d] = static_cast<float>(std::cos(angle));
        sines[static_cast<std::size_t>(t) * half + d] = static_cast<float>(std::sin(angle));
      }
  });
  Buffer<f32> cos(bench.gpu.stream(), T, D / 2), sin(bench.gpu.stream(), T, D / 2);
  cos.copyFrom(cosines);
  sin.copyFrom(sines);
  addCandidates(c, product({{"BT", {1, 2}}, {"BH", {8, 16, 32}}}, {0, 4, 8}),
                [&](const Config &config, std::size_t s) {
                  return sample::rotary.with(config).prepare(x[s], cos, sin, y[s]);
                });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], T * H, 6e-3,
      [&, H](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        for (std::size_t d = 0; d < half; ++d) {
          double co = cosines[static_cast<std::size_t>(r / H) * half + d],
                 si = sines[static_cast<std::size_t>(r / H) * half + d];
          want[d] = v[d] * co - v[half + d] * si;
          want[half + d] = v[half + d] * co + v[d] * si;
        }
      },
      8192));
  bench.run(std::move(c), std::move(checks), false);
}

void siluCase(MemoryBench &bench, std::int64_t rows, std::int64_t n) {
  const double bytes = 3.0 * 2 * static_cast<double>(rows * n);
  Case c;
  c.sets = 2;
  c.info = {
      .suite = "memory", .op = "silu_mul_fwd", .dtype = "bf16", .shape = str({rows, n}), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, 2 * n}, 5);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {rows, n});
  addCandidates(
      c, product({{"BR", {1, 2}}, {"BC", {1024, 2048, 4096}}}, {4, 8}),
      [&](const Config &config, std::size_t s) { return sample::siluMul.with(config).prepare(x[s], y[s]); });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], rows, 6e-3, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] = v[i] / (1 + std::exp(-v[i])) * v[want.size() + i];
      }));
  bench.run(std::move(c), std::move(checks), false);
}

void transposeCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * 2 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "transpose", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 6);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {cols, rows});
  addCandidates(c, product({{"BR", {32, 64, 128}}, {"BC", {32, 64, 128}}}, {4, 8}),
                [&](const Config &config, std::size_t s) {
                  return sample::transpose.with(config).prepare(x[s], y[s]);
                });
  Checks checks;
  const std::int64_t width = cols;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], cols, 0, [&, width](std::int64_t r, std::span<double> want) {
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] = x.at(static_cast<std::int64_t>(i) * width + r);
      }));
  bench.run(std::move(c), std::move(checks), false);
}

void rowSumCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "row_sum", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 7);
  std::vector<Buffer<f32>> y = outputs<f32>(bench.gpu, c.sets, {rows});
  addCandidates(
      c, wholeRows(cols),
      [&](const Config &config, std::size_t s) { return sample::rowSum.with(config).prepare(x[s], y[s]); },
      "whole ");
  addCandidates(
      c, product({{"BR", {1, 2}}, {"BC", {1024, 2048, 4096, 8192}}}, {4, 8}),
      [&](const Config &config, std::size_t s) {
        return sample::rowSumLoop.with(config).prepare(x[s], y[s]);
      },
      "loop ");
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<f32>>(bench.gpu, y[0], rows, 1e-5,
                                                   [&](std::int64_t r, std::span<double> want) {
                                                     want[0] = 0;
                                                     for (double v : x.row(r))
                                                       want[0] += v;
                                                   }));
  bench.run(std::move(c), std::move(checks), false);
}

void colSumCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "col_sum", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 8);
  std::vector<Buffer<f32>> y = outputs<f32>(bench.gpu, c.sets, {cols});
  addCandidates(c, columnStrips(), [&](const Config &config, std::size_t s) {
    return sample::colSum.with(config).prepare(x[s], y[s]);
  });
  Checks checks;
  const std::int64_t height = rows;
  checks.push_back(std::make_unique<WholeCheck<f32>>(y[0], 1e-5, [&, height] {
    return sumRows(height, static_cast<std::size_t>(y[0].size()),
                   [&](std::int64_t r, std::span<double> total) {
                     std::vector<double> v = x.row(r);
                     for (std::size_t i = 0; i < total.size(); ++i)
                       total[i] += v[i];
                   });
  }));
  bench.run(std::move(c), std::move(checks), false);
}

} // namespace

void copyAndAddCases(MemoryBench &bench) {
  using Lengths = std::vector<std::int64_t>;
  for (std::int64_t n : pickShapes(bench.options, Lengths{1 << 28, 1 << 25, 1 << 30}))
    bench.attempt("copy", std::to_string(n), [&] { copyCase(bench, n); });
  for (std::int64_t n : pickShapes(bench.options, Lengths{1 << 28, 1 << 25}))
    bench.attempt("add", std::to_string(n),
                  [&] { addCase<bf16>(bench, addBf16, bench.noise(), n, "bf16", 5e-3); });
  bench.attempt("add", "fp32", [&] { addCase<f32>(bench, addF32, bench.noiseF32(), 1 << 27, "fp32", 1e-6); });
}

void fusionCases(MemoryBench &bench) {
  bench.attempt("rope_fwd", "", [&] { ropeCase(bench, 16384, 32, 128); });
  bench.attempt("silu_mul_fwd", "", [&] { siluCase(bench, 8192, 14336); });
}

void moveAndSumCases(MemoryBench &bench) {
  using Shapes = std::vector<Shape>;
  for (Shape shape : pickShapes(bench.options, Shapes{{8192, 8192}, {4096, 12345}}))
    bench.attempt("transpose", str(shape), [&] { transposeCase(bench, shape); });
  for (Shape shape : pickShapes(bench.options, Shapes{{32768, 4096}, {4096, 50257}}))
    bench.attempt("row_sum", str(shape), [&] { rowSumCase(bench, shape); });
  for (Shape shape : pickShapes(bench.options, Shapes{{32768, 4096}, {8192, 8192}}))
    bench.attempt("col_sum", str(shape), [&] { colSumCase(bench, shape); });
}

} // namespace bench
