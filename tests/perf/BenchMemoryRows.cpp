// SPDX-License-Identifier: Apache-2.0
/// \file The memory suite's kernels that reduce over rows: softmax, cross-entropy, quantising.
#include "samples/02_softmax/kernels.h"
#include "samples/11_cross_entropy/kernels.h"
#include "samples/14_quantise/kernels.h"
#include "tests/perf/BenchMemory.h"

#include <fmt/format.h>

#include <numeric>

namespace bench {
namespace {
using namespace sectile;

double largest(const std::vector<double> &row) { return *std::max_element(row.begin(), row.end()); }

/// Adds the whole-row form, and for long rows the loop over pieces.
template <class Whole, class Loop>
void addWholeAndLoop(Case &c, std::int64_t cols, const std::vector<Config> &loops, Whole whole, Loop loop) {
  addCandidates(c, wholeRows(cols), whole, "whole ");
  if (cols > 4096)
    addCandidates(c, loops, loop, "loop ");
}

void softmaxCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * 2 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "softmax", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 10);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {rows, cols});
  addWholeAndLoop(
      c, cols, product({{"BC", {2048, 4096, 8192, 16384}}}, {4, 8, 16}),
      [&](const Config &config, std::size_t s) { return sample::softmax.with(config).prepare(x[s], y[s]); },
      [&](const Config &config, std::size_t s) {
        return sample::softmaxLoop.with(config).prepare(x[s], y[s]);
      });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(bench.gpu, y[0], rows, 6e-3,
                                                    [&](std::int64_t r, std::span<double> want) {
                                                      std::vector<double> v = x.row(r);
                                                      double top = largest(v), total = 0;
                                                      for (std::size_t i = 0; i < v.size(); ++i)
                                                        total += want[i] = std::exp(v[i] - top);
                                                      for (double &w : want)
                                                        w /= total;
                                                    }));
  bench.run(std::move(c), std::move(checks), true);
}

void crossEntropyCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * static_cast<double>(rows * cols);
  Case c;
  c.sets = 2;
  c.info = {
      .suite = "memory", .op = "cross_entropy_fwd", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.wideNoise(), c.sets, {rows, cols}, 11);
  std::vector<Buffer<i64>> targets = outputs<i64>(bench.gpu, c.sets, {rows});
  std::vector<i64> chosen; // of set 0
  for (std::size_t s = targets.size(); s-- > 0;) {
    chosen.clear();
    for (std::int64_t r = 0; r < rows; ++r)
      chosen.push_back((r * 2'654'435'761 + static_cast<std::int64_t>(s) * 977) % cols);
    targets[s].copyFrom(chosen);
  }
  std::vector<Buffer<f32>> loss = outputs<f32>(bench.gpu, c.sets, {rows});
  addWholeAndLoop(
      c, cols, product({{"BC", {4096, 8192, 16384, 32768}}}, {8, 16, 32}),
      [&](const Config &config, std::size_t s) {
        return sample::crossEntropy.with(config).prepare(x[s], targets[s], loss[s]);
      },
      [&](const Config &config, std::size_t s) {
        return sample::crossEntropyLoop.with(config).prepare(x[s], targets[s], loss[s]);
      });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<f32>>(
      bench.gpu, loss[0], rows, 1e-4, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        double top = largest(v), total = 0;
        for (double e : v)
          total += std::exp(e - top);
        want[0] = top + std::log(total) - v[static_cast<std::size_t>(chosen[static_cast<std::size_t>(r)])];
      }));
  bench.run(std::move(c), std::move(checks), false);
}

double largestMagnitude(std::span<const double> v) {
  return std::accumulate(v.begin(), v.end(), 1e-12,
                         [](double m, double e) { return std::max(m, std::abs(e)); });
}

void quantiseRowsCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 3.0 * static_cast<double>(rows * cols) + 4.0 * static_cast<double>(rows);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "quant_fp8_rows", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 12);
  std::vector<Buffer<e4m3>> q = outputs<e4m3>(bench.gpu, c.sets, {rows, cols});
  std::vector<Buffer<f32>> scale = outputs<f32>(bench.gpu, c.sets, {rows});
  addCandidates(c, wholeRows(cols), [&](const Config &config, std::size_t s) {
    return sample::quantiseRows.with(config).prepare(x[s], q[s], scale[s]);
  });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<e4m3>>(
      bench.gpu, q[0], rows, 4e-2, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        double s = largestMagnitude(v) / 448;
        std::ranges::transform(v, want.begin(), [&](double e) { return e / s; });
      }));
  checks.push_back(std::make_unique<RowCheck<f32>>(
      bench.gpu, scale[0], rows, 1e-6,
      [&](std::int64_t r, std::span<double> want) { want[0] = largestMagnitude(x.row(r)) / 448; }));
  bench.run(std::move(c), std::move(checks), false);
}

void quantiseBlocksCase(MemoryBench &bench, Shape shape) {
  constexpr std::int64_t block = 128;
  auto [rows, cols] = shape;
  const std::int64_t blocks = cols / block;
  const double bytes = 3.0 * static_cast<double>(rows * cols) + 4.0 * static_cast<double>(rows * blocks);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {
      .suite = "memory", .op = "quant_fp8_block128", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 13);
  std::vector<Buffer<e4m3>> q = outputs<e4m3>(bench.gpu, c.sets, {rows, cols});
  std::vector<Buffer<f32>> scale = outputs<f32>(bench.gpu, c.sets, {rows, blocks});
  addCandidates(c, product({{"BR", {8, 16, 32, 64}}}, {2, 4, 8}), [&](const Config &config, std::size_t s) {
    return sample::quantiseBlocks.with(config).prepare(x[s], q[s], scale[s], static_cast<i32>(block));
  });
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<e4m3>>(
      bench.gpu, q[0], rows, 4e-2, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        for (std::size_t i = 0; i < want.size(); i += block) {
          double s = largestMagnitude(std::span(v).subspan(i, block)) / 448;
          for (std::size_t k = i; k < i + block; ++k)
            want[k] = v[k] / s;
        }
      }));
  checks.push_back(std::make_unique<RowCheck<f32>>(
      bench.gpu, scale[0], rows, 1e-6, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] = largestMagnitude(std::span(v).subspan(i * block, block)) / 448;
      }));
  bench.run(std::move(c), std::move(checks), false);
}

} // namespace

void softmaxCases(MemoryBench &bench) {
  for (Shape shape : pickShapes(bench.options,
                                std::vector<Shape>{{8192, 8192},
                                                   {4096, 12345},
                                                   {8192, 50257},
                                                   {32768, 1024},
                                                   {16384, 4096},
                                                   {4096, 256},
                                                   {4096, 32768},
                                                   {32768, 2048},
                                                   {32768, 8192}},
                                3))
    bench.attempt("softmax", str(shape), [&] { softmaxCase(bench, shape); });
}

void crossEntropyCases(MemoryBench &bench) {
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{8192, 32000}, {8192, 128256}}))
    bench.attempt("cross_entropy_fwd", str(shape), [&] { crossEntropyCase(bench, shape); });
}

void quantiseCases(MemoryBench &bench) {
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{8192, 4096}, {16384, 8192}})) {
    bench.attempt("quant_fp8_rows", str(shape), [&] { quantiseRowsCase(bench, shape); });
    bench.attempt("quant_fp8_block128", str(shape), [&] { quantiseBlocksCase(bench, shape); });
  }
}

} // namespace bench
