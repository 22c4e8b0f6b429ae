// SPDX-License-Identifier: Apache-2.0
// 03 layer norm, forward and backward. The idea: a reduction along rows and one along columns are the same
// kind of program; the one along columns is a plain loop over rows, and how many blocks share it is the
// compiler's choice. Going back, one kernel does both in one pass: its loop stores rows and adds up columns.
#include "samples/common/Sample.h"

// 1. Kernels: `layer_norm`, `layer_norm_backward_data`, `layer_norm_backward_weights`, both as `layer_norm_backward`
#include "samples/03_layer_norm/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "layer norm over rows, forward and backward");
    const std::int64_t rows = options.small ? 37 : 8192, cols = options.small ? 1000 : 4096;
    const float eps = 1e-5f;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<bf16, 2> y(nullptr, {rows, cols});
      Tensor<const bf16, 1> w(nullptr, {cols});
      Tensor<f32, 1> mean(nullptr, {rows}), rstd(nullptr, {rows});
      Tensor<bf16, 1> dw(nullptr, {cols}), db(nullptr, {cols});
      auto forward = [&] {
        return sample::layerNorm.emit(options.emit, options.arch, x, w, w, y, mean, rstd, eps);
      };
      auto data = [&] {
        return sample::layerNormBackwardData.emit(options.emit, options.arch, x, x, w, mean, rstd, y);
      };
      auto weights = [&] {
        return sample::layerNormBackwardWeights.emit(options.emit, options.arch, x, x, mean, rstd, dw, db);
      };
      auto both = [&] {
        return sample::layerNormBackward.emit(options.emit, options.arch, x, x, w, mean, rstd, y, dw, db);
      };
      return sample::emit(options, {{"layer_norm", forward},
                                    {"layer_norm_backward_data", data},
                                    {"layer_norm_backward_weights", weights},
                                    {"layer_norm_backward", both}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1), dy = sample::normal<bf16>(rows * cols, 2);
    auto w = sample::normal<bf16>(cols, 3), b = sample::normal<bf16>(cols, 4);
    Buffer<bf16> X(stream, rows, cols), DY(stream, rows, cols), W(stream, cols), B(stream, cols);
    Buffer<bf16> Y(stream, rows, cols), DX(stream, rows, cols), DW(stream, cols), DB(stream, cols);
    Buffer<f32> Mean(stream, rows), Rstd(stream, rows);
    X.copyFrom(x);
    DY.copyFrom(dy);
    W.copyFrom(w);
    B.copyFrom(b);
    for (auto *output : {&Y, &DX, &DW, &DB})
      output->fillBytes(0xFF);
    Mean.fillBytes(0xFF);
    Rstd.fillBytes(0xFF);

    auto forward = sample::layerNorm.prepare(X, W, B, Y, Mean, Rstd, eps);
    auto data = sample::layerNormBackwardData.prepare(X, DY, W, Mean, Rstd, DX);
    auto weights = sample::layerNormBackwardWeights.prepare(X, DY, Mean, Rstd, DW, DB);
    Buffer<bf16> DX1(stream, rows, cols), DW1(stream, cols), DB1(stream, cols);
    for (auto *output : {&DX1, &DW1, &DB1})
      output->fillBytes(0xFF);
    auto both = sample::layerNormBackward.prepare(X, DY, W, Mean, Rstd, DX1, DW1, DB1);
    forward(stream);
    data(stream);
    weights(stream);
    both(stream);
    auto y = Y.toHost(), dx = DX.toHost(), dwGot = DW.toHost(), dbGot = DB.toHost();
    auto dx1 = DX1.toHost(), dw1 = DW1.toHost(), db1 = DB1.toHost();
    auto mean = Mean.toHost(), rstd = Rstd.toHost();

    // 3. Host reference in double, 4. compare: one rounding to bf16, and 64 units in 2^-24 of the magnitudes
    // of what is added up in f32
    constexpr double round = 0x1p-8, inside = 64 * 0x1p-24;
    sample::Comparison forwardOk, dataOk, weightsOk, bothOk;
    std::vector<double> dw(cols), db(cols), dwTerms(cols), dbTerms(cols), h(cols), g(cols);
    for (std::int64_t r = 0; r < rows; ++r) {
      const bf16 *xr = &x[r * cols], *dyr = &dy[r * cols];
      double m = 0, magnitude = 0, variance = 0, both = 0, alone = 0, bothTerms = 0, aloneTerms = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        m += double(xr[c]) / cols;
        magnitude += std::abs(double(xr[c])) / cols;
      }
      for (std::int64_t c = 0; c < cols; ++c)
        variance += (double(xr[c]) - m) * (double(xr[c]) - m) / cols;
      const double s = 1 / std::sqrt(variance + double(eps));
      forwardOk.add(mean[r], m, inside * magnitude);
      forwardOk.add(rstd[r], s, inside * s);
      for (std::int64_t c = 0; c < cols; ++c) {
        h[c] = (double(xr[c]) - m) * s;
        g[c] = double(dyr[c]) * double(w[c]);
        both += g[c] * h[c] / cols;
        alone += g[c] / cols;
        bothTerms += std::abs(g[c] * h[c]) / cols;
        aloneTerms += std::abs(g[c]) / cols;
      }
      for (std::int64_t c = 0; c < cols; ++c) {
        const double size = std::abs(h[c]) + magnitude * s;
        const double out = h[c] * double(w[c]) + double(b[c]);
        forwardOk.add(y[r * cols + c], out,
                      round * std::abs(out) +
                          inside * (size * std::abs(double(w[c])) + std::abs(double(b[c]))));
        const double in = (g[c] - h[c] * both - alone) * s;
        const double bound = round * std::abs(in) + inside * s * (std::abs(g[c]) + size * bothTerms + aloneTerms);
        dataOk.add(dx[r * cols + c], in, bound);
        bothOk.add(dx1[r * cols + c], in, bound);
        dw[c] += double(dyr[c]) * h[c];
        db[c] += double(dyr[c]);
        dwTerms[c] += std::abs(double(dyr[c])) * size;
        dbTerms[c] += std::abs(double(dyr[c]));
      }
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      weightsOk.add(dwGot[c], dw[c], round * std::abs(dw[c]) + inside * dwTerms[c]);
      weightsOk.add(dbGot[c], db[c], round * std::abs(db[c]) + inside * dbTerms[c]);
      bothOk.add(dw1[c], dw[c], round * std::abs(dw[c]) + inside * dwTerms[c]);
      bothOk.add(db1[c], db[c], round * std::abs(db[c]) + inside * dbTerms[c]);
    }

    // 5. Time
    const double matrix = 2.0 * rows * cols;
    int failed = 0;
    auto finish = [&](const char *name, const sample::Comparison &compare, auto &call, double bytes) {
      if (!options.wants(name))
        return;
      failed |= compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name()));
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }), bytes);
    };
    finish("layer_norm", forwardOk, forward, 2 * matrix);
    finish("layer_norm_backward_data", dataOk, data, 3 * matrix);
    finish("layer_norm_backward_weights", weightsOk, weights, 2 * matrix);
    finish("layer_norm_backward", bothOk, both, 3 * matrix);
    return failed;
  });
}
