// SPDX-License-Identifier: Apache-2.0
// 10 RMSNorm, alone and behind the addition of a residual. The idea: a plain C++ function on tiles is shared
// by two kernels, and a kernel that writes two results reads its inputs once.
#include "samples/common/Sample.h"

// 1. Kernels: `rms_norm`, `add_rms_norm`
#include "samples/10_rms_norm/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "RMSNorm over rows");
    const std::int64_t rows = options.small ? 37 : 8192, cols = options.small ? 1000 : 4096;
    const float eps = 1e-6f;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<const bf16, 1> w(nullptr, {cols});
      Tensor<bf16, 2> y(nullptr, {rows, cols});
      return sample::emit(
          options,
          {{"rms_norm", [&] { return sample::rmsNorm.emit(options.emit, options.arch, x, w, y, eps); }},
           {"add_rms_norm",
            [&] { return sample::addRmsNorm.emit(options.emit, options.arch, x, x, w, y, y, eps); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1), residual = sample::normal<bf16>(rows * cols, 2);
    auto w = sample::normal<bf16>(cols, 3);
    Buffer<bf16> X(stream, rows, cols), R(stream, rows, cols), W(stream, cols), S(stream, rows, cols),
        Y(stream, rows, cols);
    X.copyFrom(x);
    R.copyFrom(residual);
    W.copyFrom(w);

    for (bool isAdd : {false, true}) {
      const char *name = isAdd ? "add_rms_norm" : "rms_norm";
      if (!options.wants(name))
        continue;
      auto call =
          isAdd ? sample::addRmsNorm.prepare(X, R, W, S, Y, eps) : sample::rmsNorm.prepare(X, W, Y, eps);
      S.fillBytes(0xFF);
      Y.fillBytes(0xFF);
      call(stream);
      auto s = S.toHost(), y = Y.toHost();

      // 3. Host reference in double, 4. compare: the sum is exact up to its one rounding; y has one rounding
      // to bf16 and 64 units in 2^-24 inside
      sample::Comparison compare;
      std::vector<double> v(cols);
      for (std::int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < cols; ++c) {
          const std::int64_t i = r * cols + c;
          v[c] = isAdd ? bf16(double(x[i]) + double(residual[i])) : x[i];
          squares += v[c] * v[c];
          if (isAdd)
            compare.add(s[i], v[c], std::numeric_limits<double>::min());
        }
        const double scale = 1 / std::sqrt(squares / cols + double(eps));
        for (std::int64_t c = 0; c < cols; ++c) {
          const double want = v[c] * scale * double(w[c]);
          compare.add(y[r * cols + c], want, std::abs(want) * (0x1p-8 + 64 * 0x1p-24) + 0x1p-133);
        }
      }
      if (int failed =
              compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name())))
        return failed;

      // 5. Time
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }),
                        (isAdd ? 4.0 : 2.0) * 2 * rows * cols);
    }
    return 0;
  });
}
