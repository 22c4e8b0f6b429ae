// SPDX-License-Identifier: Apache-2.0
// 12 rotary position embedding: the halves (a, b) of each head become (a cos - b sin, b cos + a sin). The
// idea: tiles of rank 3, and a table without the heads' axis that repeats along it.
#include "samples/common/Sample.h"

// 1. Kernel: `rotary`
#include "samples/12_rotary/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes: positions, heads, half of a head
    sample::Options options = sample::parse(argc, argv, "rotary position embedding");
    const std::int64_t T = options.small ? 13 : 16384, H = options.small ? 6 : 32,
                       D = options.small ? 40 : 64;
    if (!options.emit.empty()) {
      Tensor<const bf16, 3> x(nullptr, {T, H, 2 * D});
      Tensor<const f32, 2> table(nullptr, {T, D});
      Tensor<bf16, 3> y(nullptr, {T, H, 2 * D});
      return sample::emit(
          options,
          {{"rotary", [&] { return sample::rotary.emit(options.emit, options.arch, x, table, table, y); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(T * H * 2 * D, 1);
    std::vector<float> cosines, sines;
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t d = 0; d < D; ++d) {
        const double angle = double(t) * std::pow(10000.0, -double(d) / double(D));
        cosines.push_back(float(std::cos(angle)));
        sines.push_back(float(std::sin(angle)));
      }
    Buffer<bf16> X(stream, T, H, 2 * D), Y(stream, T, H, 2 * D);
    Buffer<f32> Cos(stream, T, D), Sin(stream, T, D);
    X.copyFrom(x);
    Cos.copyFrom(cosines);
    Sin.copyFrom(sines);
    Y.fillBytes(0xFF);
    auto call = sample::rotary.prepare(X, Cos, Sin, Y);
    call(stream);
    auto y = Y.toHost();

    // 3. Host reference in double, 4. compare: three roundings in f32, one to bf16
    sample::Comparison compare;
    for (std::int64_t r = 0; r < T * H; ++r)
      for (std::int64_t d = 0; d < D; ++d) {
        const double a = x[r * 2 * D + d], b = x[r * 2 * D + D + d];
        const double cos = cosines[r / H * D + d], sin = sines[r / H * D + d];
        const double inside = 4 * 0x1p-24 * (std::abs(a) + std::abs(b));
        const double first = a * cos - b * sin, second = b * cos + a * sin;
        compare.add(y[r * 2 * D + d], first, std::abs(first) * 0x1p-8 + inside + 0x1p-133);
        compare.add(y[r * 2 * D + D + d], second, std::abs(second) * 0x1p-8 + inside + 0x1p-133);
      }
    if (int failed =
            compare.report(fmt::format("rotary {} x {} x {} on {}", T, H, 2 * D, stream.device().name())))
      return failed;

    // 5. Time
    sample::printRate("rotary", sample::time(stream, options, [&] { call(stream); }),
                      2.0 * 2 * T * H * 2 * D + 2.0 * 4 * T * D);
    return 0;
  });
}
