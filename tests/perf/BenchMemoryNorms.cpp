// SPDX-License-Identifier: Apache-2.0
/// \file The memory suite's norms, forward and backward.
#include "samples/03_layer_norm/kernels.h"
#include "samples/10_rms_norm/kernels.h"
#include "tests/perf/BenchMemory.h"

#include <fmt/format.h>

namespace bench {
namespace {
using namespace sectile;

constexpr float layerNormEps = 1e-5f, rmsNormEps = 1e-6f;
const std::vector<Shape> rowShapes = {{8192, 4096}, {16384, 8192}, {512, 8192}};

struct Moments {
  double mean, rstd;
};
Moments momentsOf(const std::vector<double> &row) {
  auto n = static_cast<double>(row.size());
  double mean = 0, variance = 0;
  for (double v : row)
    mean += v / n;
  for (double v : row)
    variance += (v - mean) * (v - mean) / n;
  return {mean, 1 / std::sqrt(variance + double(layerNormEps))};
}

/// RMSNorm of `v` with weights, in double.
void rmsNormRow(const std::vector<double> &v, const std::vector<double> &w, std::span<double> want) {
  double squares = 0;
  for (double e : v)
    squares += e * e;
  double scale = 1 / std::sqrt(squares / static_cast<double>(v.size()) + double(rmsNormEps));
  for (std::size_t i = 0; i < v.size(); ++i)
    want[i] = v[i] * scale * w[i];
}

void layerNormCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * 2 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "layernorm_fwd", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 20),
      w(bench.gpu, bench.noise(), 1, {cols}, 21), b(bench.gpu, bench.noise(), 1, {cols}, 22);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {rows, cols});
  std::vector<Buffer<f32>> mean = outputs<f32>(bench.gpu, c.sets, {rows}),
                           rstd = outputs<f32>(bench.gpu, c.sets, {rows});
  addCandidates(c, wholeRows(cols), [&](const Config &config, std::size_t s) {
    return sample::layerNorm.with(config).prepare(x[s], w[0], b[0], y[s], mean[s], rstd[s], layerNormEps);
  });
  const std::vector<double> weight = w.row(0), bias = b.row(0);
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], rows, 6e-3, [&](std::int64_t r, std::span<double> want) {
        std::vector<double> v = x.row(r);
        Moments m = momentsOf(v);
        for (std::size_t i = 0; i < v.size(); ++i)
          want[i] = (v[i] - m.mean) * m.rstd * weight[i] + bias[i];
      }));
  checks.push_back(std::make_unique<RowCheck<f32>>(
      bench.gpu, mean[0], rows, 1e-4,
      [&](std::int64_t r, std::span<double> want) { want[0] = momentsOf(x.row(r)).mean; }));
  checks.push_back(std::make_unique<RowCheck<f32>>(
      bench.gpu, rstd[0], rows, 1e-4,
      [&](std::int64_t r, std::span<double> want) { want[0] = momentsOf(x.row(r)).rstd; }));
  bench.run(std::move(c), std::move(checks), true);
}

void rmsNormCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 2.0 * 2 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "rmsnorm_fwd", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 23),
      w(bench.gpu, bench.noise(), 1, {cols}, 24);
  std::vector<Buffer<bf16>> y = outputs<bf16>(bench.gpu, c.sets, {rows, cols});
  addCandidates(c, wholeRows(cols), [&](const Config &config, std::size_t s) {
    return sample::rmsNorm.with(config).prepare(x[s], w[0], y[s], rmsNormEps);
  });
  const std::vector<double> weight = w.row(0);
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], rows, 6e-3,
      [&](std::int64_t r, std::span<double> want) { rmsNormRow(x.row(r), weight, want); }));
  bench.run(std::move(c), std::move(checks), true);
}

void addRmsNormCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const double bytes = 4.0 * 2 * static_cast<double>(rows * cols);
  Case c;
  c.sets = setsFor(bytes);
  c.info = {.suite = "memory", .op = "add_rmsnorm_fwd", .dtype = "bf16", .shape = str(shape), .bytes = bytes};
  Input<bf16> x(bench.gpu, bench.noise(), c.sets, {rows, cols}, 25),
      residual(bench.gpu, bench.noise(), c.sets, {rows, cols}, 26),
      w(bench.gpu, bench.noise(), 1, {cols}, 27);
  std::vector<Buffer<bf16>> sum = outputs<bf16>(bench.gpu, c.sets, {rows, cols}),
                            y = outputs<bf16>(bench.gpu, c.sets, {rows, cols});
  addCandidates(c, wholeRows(cols), [&](const Config &config, std::size_t s) {
    return sample::addRmsNorm.with(config).prepare(x[s], residual[s], w[0], sum[s], y[s], rmsNormEps);
  });
  const std::vector<double> weight = w.row(0);
  auto rounded = [&](std::int64_t r) {
    std::vector<double> v = x.row(r), more = residual.row(r);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = number(bf16(v[i] + more[i]));
    return v;
  };
  Checks checks;
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, sum[0], rows, 0,
      [&](std::int64_t r, std::span<double> want) { std::ranges::copy(rounded(r), want.begin()); }));
  checks.push_back(std::make_unique<RowCheck<bf16>>(
      bench.gpu, y[0], rows, 6e-3,
      [&](std::int64_t r, std::span<double> want) { rmsNormRow(rounded(r), weight, want); }));
  bench.run(std::move(c), std::move(checks), true);
}

/// Rows that a program goes through, with as many elements of a row in a thread as fit beside their sums.
std::vector<Config> rowsOfOneProgram(std::int64_t cols) {
  std::vector<Config> all{Config()};
  for (int warps : {4, 8, 16, 32})
    for (int rows : {1, 2}) {
      const std::int64_t elements = rows * cols / (32 * warps);
      if (elements < 8 || elements > 32)
        continue;
      all.push_back(Config().set("BR", rows));
      all.back().warps = warps;
      all.push_back(all.back());
      all.back().prefetch = 2;
    }
  return all;
}

/// dx, and dw with db, each tuned on its own line; then both in one window, and all in one pass.
void layerNormBackwardCase(MemoryBench &bench, Shape shape) {
  auto [rows, cols] = shape;
  const std::int64_t height = rows;
  const double bytes = 3.0 * 2 * static_cast<double>(rows * cols);
  const int sets = 2;
  auto newCase = [&](const char *op, double moved) {
    Case c;
    c.sets = sets;
    c.info = {.suite = "memory", .op = op, .dtype = "bf16", .shape = str(shape), .bytes = moved};
    return c;
  };
  Input<bf16> x(bench.gpu, bench.noise(), sets, {rows, cols}, 28),
      dy(bench.gpu, bench.noise(), sets, {rows, cols}, 29), w(bench.gpu, bench.noise(), 1, {cols}, 30);
  std::vector<Buffer<f32>> mean = outputs<f32>(bench.gpu, sets, {rows}),
                           rstd = outputs<f32>(bench.gpu, sets, {rows});
  std::vector<Moments> moments(static_cast<std::size_t>(rows)); // of set 0
  for (int s = sets; s-- > 0;) {
    std::vector<f32> means(moments.size()), rstds(moments.size());
    parallel(height, [&](std::int64_t begin, std::int64_t end) {
      for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
        moments[r] = momentsOf(x.row(static_cast<std::int64_t>(r), s));
        means[r] = static_cast<float>(moments[r].mean);
        rstds[r] = static_cast<float>(moments[r].rstd);
      }
    });
    mean[static_cast<std::size_t>(s)].copyFrom(means);
    rstd[static_cast<std::size_t>(s)].copyFrom(rstds);
  }
  std::vector<Buffer<bf16>> dx = outputs<bf16>(bench.gpu, sets, {rows, cols}),
                            dw = outputs<bf16>(bench.gpu, sets, {cols}),
                            db = outputs<bf16>(bench.gpu, sets, {cols});
  const std::vector<double> weight = w.row(0);
  auto checkDx = [&] {
    return std::make_unique<RowCheck<bf16>>(bench.gpu, dx[0], height, 1e-2,
                                            [&](std::int64_t r, std::span<double> want) {
                                              std::vector<double> h = x.row(r), g = dy.row(r);
                                              Moments m = moments[static_cast<std::size_t>(r)];
                                              double both = 0, alone = 0;
                                              auto n = static_cast<double>(h.size());
                                              for (std::size_t i = 0; i < h.size(); ++i) {
                                                h[i] = (h[i] - m.mean) * m.rstd;
                                                g[i] *= weight[i];
                                                both += g[i] * h[i] / n;
                                                alone += g[i] / n;
                                              }
                                              for (std::size_t i = 0; i < h.size(); ++i)
                                                want[i] = (g[i] - h[i] * both - alone) * m.rstd;
                                            });
  };
  auto addWeightChecks = [&](Checks &checks) {
    auto width = static_cast<std::size_t>(weight.size());
    checks.push_back(std::make_unique<WholeCheck<bf16>>(dw[0], 1e-2, [&, width] {
      return sumRows(height, width, [&](std::int64_t r, std::span<double> total) {
        std::vector<double> h = x.row(r), g = dy.row(r);
        Moments m = moments[static_cast<std::size_t>(r)];
        for (std::size_t i = 0; i < total.size(); ++i)
          total[i] += g[i] * (h[i] - m.mean) * m.rstd;
      });
    }));
    checks.push_back(std::make_unique<WholeCheck<bf16>>(db[0], 1e-2, [&, width] {
      return sumRows(height, width, [&](std::int64_t r, std::span<double> total) {
        std::vector<double> g = dy.row(r);
        for (std::size_t i = 0; i < total.size(); ++i)
          total[i] += g[i];
      });
    }));
  };

  Case data = newCase("layernorm_bwd_dx", bytes);
  addCandidates(data, wholeRows(cols), [&](const Config &config, std::size_t s) {
    return sample::layerNormBackwardData.with(config).prepare(x[s], dy[s], w[0], mean[s], rstd[s], dx[s]);
  });
  Checks dataChecks;
  dataChecks.push_back(checkDx());
  Best dataBest = bench.run(std::move(data), std::move(dataChecks), false);

  Case weights = newCase("layernorm_bwd_dw_db", bytes * 2 / 3);
  addCandidates(weights, columnStrips(), [&](const Config &config, std::size_t s) {
    return sample::layerNormBackwardWeights.with(config).prepare(x[s], dy[s], mean[s], rstd[s], dw[s], db[s]);
  });
  Checks weightChecks;
  addWeightChecks(weightChecks);
  Best weightBest = bench.run(std::move(weights), std::move(weightChecks), false);
  if (dataBest.calls.empty() || weightBest.calls.empty())
    return;

  Case both = newCase("layernorm_bwd", bytes);
  both.candidates.push_back({fmt::format("dx: {}, dw db: {}", dataBest.name, weightBest.name), [&] {
                               std::vector<Call> calls;
                               for (std::size_t s = 0; s < dx.size(); ++s)
                                 calls.emplace_back([first = dataBest.calls[s],
                                                     second = weightBest.calls[s]](const Stream &stream) {
                                   first(stream);
                                   second(stream);
                                 });
                               return calls;
                             }});
  addCandidates(both, rowsOfOneProgram(cols), [&](const Config &config, std::size_t s) {
    return sample::layerNormBackward.with(config).prepare(x[s], dy[s], w[0], mean[s], rstd[s], dx[s], dw[s], db[s]);
  }, "one pass ");
  Checks bothChecks;
  bothChecks.push_back(checkDx());
  addWeightChecks(bothChecks);
  bench.run(std::move(both), std::move(bothChecks), true);
}

} // namespace

void normCases(MemoryBench &bench) {
  std::vector<Shape> shapes = pickShapes(bench.options, rowShapes);
  for (Shape shape : shapes)
    bench.attempt("rmsnorm_fwd", str(shape), [&] { rmsNormCase(bench, shape); });
  for (Shape shape : shapes)
    bench.attempt("layernorm_fwd", str(shape), [&] { layerNormCase(bench, shape); });
  for (Shape shape : shapes)
    bench.attempt("add_rmsnorm_fwd", str(shape), [&] { addRmsNormCase(bench, shape); });
}

void normBackwardCases(MemoryBench &bench) {
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{8192, 4096}, {16384, 8192}}))
    bench.attempt("layernorm_bwd", str(shape), [&] { layerNormBackwardCase(bench, shape); });
}

} // namespace bench
