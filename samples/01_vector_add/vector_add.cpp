// SPDX-License-Identifier: Apache-2.0
// 01 vector_add: z = x + y. The idea: a kernel says what one tile does; the grid and the tail are the compiler's.
#include "samples/common/Sample.h"

using namespace sectile;

// 1. Kernel
inline constexpr auto vectorAdd =
    kernel("vector_add", [](Tensor<const f32, 1> X, Tensor<const f32, 1> Y, Tensor<f32, 1> Z, Config &cfg) {
      const int B = cfg.pick("B", {1024, 512, 2048, 4096});
      auto [i] = grid(Z, {B});
      Z.store({i}, X.load({i}, {B}) + Y.load({i}, {B}));
    });

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "z = x + y");
    const std::int64_t n = options.small ? 10007 : std::int64_t(1) << 28;
    if (!options.emit.empty()) {
      Tensor<const f32, 1> x(nullptr, {n}), y(nullptr, {n});
      Tensor<f32, 1> z(nullptr, {n});
      return sample::emit(options, {{"vector_add", [&] { return vectorAdd.emit(options.emit, options.arch, x, y, z); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<f32>(n, 1), y = sample::normal<f32>(n, 2);
    Buffer<f32> X(stream, n), Y(stream, n), Z(stream, n);
    X.copyFrom(x);
    Y.copyFrom(y);
    Z.fillBytes(0xFF);

    // 3. Host reference and 4. run and compare: a float addition is exact on every device
    vectorAdd(stream, X, Y, Z);
    stream.synchronize();
    auto z = Z.toHost();
    sample::Comparison compare;
    for (std::int64_t i = 0; i < n; ++i)
      compare.add(z[i], x[i] + y[i], std::numeric_limits<double>::min());
    if (int failed = compare.report(fmt::format("vector_add {} on {}", n, stream.device().name())))
      return failed;

    // 5. Time
    auto call = vectorAdd.prepare(X, Y, Z);
    auto t = sample::time(stream, options, [&] { call(stream); });
    fmt::print("{:.1f} us ({:.1f} to {:.1f}) | {:.1f} GB/s\n", t.medianMicros, t.minMicros, t.maxMicros,
               3.0 * 4 * n / t.medianMicros * 1e-3);
    return 0;
  });
}
