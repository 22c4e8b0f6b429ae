// SPDX-License-Identifier: Apache-2.0
// 13 silu_mul: y = silu(a) * b, where each row of the input holds a and then b. The idea: an offset may be
// any sum of scalars, and a tile that reaches from a into b at its end does no harm, because the store ends
// where y ends.
#include "samples/common/Sample.h"

// 1. Kernel: `silu_mul`
#include "samples/13_silu_mul/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "y = silu(a) * b");
    const std::int64_t rows = options.small ? 37 : 8192, n = options.small ? 1000 : 14336;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, 2 * n});
      Tensor<bf16, 2> y(nullptr, {rows, n});
      return sample::emit(
          options, {{"silu_mul", [&] { return sample::siluMul.emit(options.emit, options.arch, x, y); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * 2 * n, 1);
    Buffer<bf16> X(stream, rows, 2 * n), Y(stream, rows, n);
    X.copyFrom(x);
    Y.fillBytes(0xFF);
    auto call = sample::siluMul.prepare(X, Y);
    call(stream);
    auto y = Y.toHost();

    // 3. Host reference in double, 4. compare: 16 units in 2^-24 inside, one rounding to bf16
    sample::Comparison compare;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        const double a = x[r * 2 * n + c], b = x[r * 2 * n + n + c];
        const double want = a / (1 + std::exp(-a)) * b;
        compare.add(y[r * n + c], want, std::abs(want) * (0x1p-8 + 16 * 0x1p-24) + 0x1p-133);
      }
    if (int failed = compare.report(fmt::format("silu_mul {} x {} on {}", rows, n, stream.device().name())))
      return failed;

    // 5. Time
    sample::printRate("silu_mul", sample::time(stream, options, [&] { call(stream); }), 3.0 * 2 * rows * n);
    return 0;
  });
}
