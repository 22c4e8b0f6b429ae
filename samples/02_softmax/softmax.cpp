// SPDX-License-Identifier: Apache-2.0
// 02 softmax: y = exp(x - max x) / sum over each row. The idea: lanes past the end of a row do not exist, so
// reductions need no masks; the tile length is a power of two that covers the row.
#include "samples/common/Sample.h"

using namespace sectile;

// 1. Kernel
inline constexpr auto softmax = kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4});
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
  Tile e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "softmax over rows");
    const std::int64_t rows = options.small ? 37 : 8192, cols = options.small ? 1000 : 4096;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<bf16, 2> y(nullptr, {rows, cols});
      return sample::emit(options, softmax.emit(options.emit, options.arch, x, y));
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1);
    Buffer<bf16> X(stream, rows, cols), Y(stream, rows, cols);
    X.copyFrom(x);
    Y.fillBytes(0xFF);

    // 3. Host reference in double, 4. run and compare: f32 inside (a few units in 2^-24 per term), one rounding to bf16
    softmax(stream, X, Y);
    stream.synchronize();
    auto y = Y.toHost();
    sample::Comparison compare;
    for (std::int64_t r = 0; r < rows; ++r) {
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        top = std::max(top, double(x[r * cols + c]));
      for (std::int64_t c = 0; c < cols; ++c)
        total += std::exp(double(x[r * cols + c]) - top);
      for (std::int64_t c = 0; c < cols; ++c) {
        double want = std::exp(double(x[r * cols + c]) - top) / total;
        compare.add(y[r * cols + c], want, want * (0x1p-8 + 64 * 0x1p-24) + 0x1p-133);
      }
    }
    if (int failed = compare.report(fmt::format("softmax {} x {} on {}", rows, cols, stream.device().name())))
      return failed;

    // 5. Time
    auto call = softmax.prepare(X, Y);
    auto t = sample::time(stream, options, [&] { call(stream); });
    fmt::print("{:.1f} us ({:.1f} to {:.1f}) | {:.1f} GB/s\n", t.medianMicros, t.minMicros, t.maxMicros,
               2.0 * 2 * rows * cols / t.medianMicros * 1e-3);
    return 0;
  });
}
