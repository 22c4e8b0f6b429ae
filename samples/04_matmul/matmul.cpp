// SPDX-License-Identifier: Apache-2.0
// 04 matmul: C = A B in bf16 with f32 sums. The idea: a plain loop over K tiles; tensor cores, shared memory and
// barriers are the compiler's.
#include "samples/04_matmul/kernels.h"
#include "samples/common/Sample.h"

using namespace sectile;

// 1. Kernel: matmulOf in kernels.h
inline constexpr auto &matmul = sample::matmulOf<bf16>;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "C = A B");
    const std::int64_t M = options.small ? 200 : 4096, N = options.small ? 136 : 4096, K = options.small ? 328 : 4096;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> a(nullptr, {M, K}), b(nullptr, {K, N});
      Tensor<bf16, 2> c(nullptr, {M, N});
      return sample::emit(options, {{"matmul", [&] { return matmul.emit(options.emit, options.arch, a, b, c); }}});
    }
    Stream stream = sample::device(options).stream();
    auto a = sample::normal<bf16>(M * K, 1), b = sample::normal<bf16>(K * N, 2);
    Buffer<bf16> A(stream, M, K), B(stream, K, N), C(stream, M, N);
    A.copyFrom(a);
    B.copyFrom(b);
    C.fillBytes(0xFF);

    // 3. Host reference in double on sampled rows (every row when small), 4. run and compare: f32 sums of K exact
    // products (error at most K 2^-24 of the sum of magnitudes), one rounding to bf16
    matmul(stream, A, B, C);
    stream.synchronize();
    auto c = C.toHost();
    sample::Comparison compare;
    const std::int64_t step = std::max<std::int64_t>(1, M / 256 | 1);
    std::vector<double> sum(static_cast<std::size_t>(N)), magnitude(static_cast<std::size_t>(N));
    for (std::int64_t m = 0; m < M; m += step) {
      std::fill(sum.begin(), sum.end(), 0.0);
      std::fill(magnitude.begin(), magnitude.end(), 0.0);
      for (std::int64_t k = 0; k < K; ++k) {
        const double x = a[m * K + k];
        for (std::int64_t n = 0; n < N; ++n) {
          const double p = x * double(b[k * N + n]);
          sum[n] += p;
          magnitude[n] += std::abs(p);
        }
      }
      for (std::int64_t n = 0; n < N; ++n)
        compare.add(c[m * N + n], sum[n], std::abs(sum[n]) * 0x1p-8 + double(K) * 0x1p-24 * magnitude[n] + 0x1p-133);
    }
    if (int failed = compare.report(fmt::format("matmul {} x {} x {} on {}", M, N, K, stream.device().name())))
      return failed;

    // 5. Time
    auto call = matmul.prepare(A, B, C);
    auto t = sample::time(stream, options, [&] { call(stream); });
    fmt::print("{:.1f} us ({:.1f} to {:.1f}) | {:.1f} TFLOP/s\n", t.medianMicros, t.minMicros, t.maxMicros,
               2.0 * M * N * K / t.medianMicros * 1e-6);
    return 0;
  });
}
