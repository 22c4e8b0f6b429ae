// SPDX-License-Identifier: Apache-2.0
// 02 softmax: y = exp(x - max x) / sum over each row. The idea: lanes past the end of a row do not exist, so
// reductions need no masks; the tile length is the next step that covers the row.
#include "samples/common/Sample.h"

// 1. Kernels: `softmax` and, for rows that no tile covers, `softmax_loop`
#include "samples/02_softmax/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "softmax over rows");
    const std::int64_t rows = options.small ? 37 : 8192, cols = options.small ? 1000 : 4096;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<bf16, 2> y(nullptr, {rows, cols});
      return sample::emit(
          options,
          {{"softmax", [&] { return sample::softmax.emit(options.emit, options.arch, x, y); }},
           {"softmax_loop", [&] { return sample::softmaxLoop.emit(options.emit, options.arch, x, y); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1);
    Buffer<bf16> X(stream, rows, cols), Y(stream, rows, cols);
    X.copyFrom(x);

    // 3. Host reference in double
    std::vector<double> want(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        top = std::max(top, double(x[r * cols + c]));
      for (std::int64_t c = 0; c < cols; ++c)
        total += std::exp(double(x[r * cols + c]) - top);
      for (std::int64_t c = 0; c < cols; ++c)
        want[r * cols + c] = std::exp(double(x[r * cols + c]) - top) / total;
    }

    for (bool isLoop : {false, true}) {
      const char *name = isLoop ? "softmax_loop" : "softmax";
      if (!options.wants(name))
        continue;
      // 4. Run and compare: f32 inside (a few units in 2^-24 per term), one rounding to bf16
      Config pieces = options.small ? Config().set("BC", 512) : Config();
      auto call = isLoop ? sample::softmaxLoop.with(pieces).prepare(X, Y) : sample::softmax.prepare(X, Y);
      Y.fillBytes(0xFF);
      call(stream);
      auto y = Y.toHost();
      sample::Comparison compare;
      for (std::size_t i = 0; i < y.size(); ++i)
        compare.add(y[i], want[i], want[i] * (0x1p-8 + 64 * 0x1p-24) + 0x1p-133);
      if (int failed =
              compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name())))
        return failed;

      // 5. Time
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * 2 * rows * cols);
    }
    return 0;
  });
}
