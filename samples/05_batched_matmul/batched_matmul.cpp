// SPDX-License-Identifier: Apache-2.0
// 05 batched matmul: C[z] = A[z] B[z]. The idea: a batch is one more axis of the grid, and how its members
// lie in memory is the business of the views that are given to the launch: one after the other, one for all
// (stride 0), or heads that lie between each other (large strides along rows).
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernel: `batched_matmul`
#include "samples/05_batched_matmul/kernels.h"

using namespace sectile;

namespace {

inline constexpr auto &batched = sample::batchedMatmul<bf16>;

/// A tensor of rank 3 as it lies in `elements` elements of memory.
struct Layout {
  std::array<std::int64_t, 3> dims, strides;
  std::int64_t elements;
  std::int64_t at(std::int64_t z, std::int64_t row, std::int64_t column) const {
    return z * strides[0] + row * strides[1] + column * strides[2];
  }
};

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes: Z members of M x K times K x N
    sample::Options options = sample::parse(argc, argv, "C[z] = A[z] B[z]");
    const std::int64_t Z = options.small ? 3 : 32, M = options.small ? 150 : 2048,
                       N = options.small ? 136 : 2048, K = options.small ? 72 : 128;
    const Layout a{{Z, M, K}, {M * K, K, 1}, Z * M * K}, b{{Z, K, N}, {K * N, N, 1}, Z * K * N},
        c{{Z, M, N}, {M * N, N, 1}, Z * M * N};
    const Layout one{{Z, K, N}, {0, N, 1}, K * N};             // B is the same for all members
    const Layout queries{{Z, M, K}, {K, Z * K, 1}, Z * M * K}, // rows x heads x K, seen as heads x rows x K
        keys{{Z, K, N}, {K, 1, Z * K}, Z * K * N}; // columns x heads x K, seen as heads x K x columns

    auto job = [&](const char *name, const Layout &left, const Layout &right) {
      auto text = [&, left, right] {
        return batched.emit(
            options.emit, options.arch, Tensor<const bf16, 3>(nullptr, left.dims, left.strides),
            Tensor<const bf16, 3>(nullptr, right.dims, right.strides), Tensor<bf16, 3>(nullptr, c.dims));
      };
      auto run = [&, name, left, right] {
        Stream stream = sample::device(options).stream();
        const auto x = sample::normal<bf16>(left.elements, 1), y = sample::normal<bf16>(right.elements, 2);
        Buffer<bf16> X(stream, left.elements), Y(stream, right.elements), C(stream, Z, M, N);
        X.copyFrom(x);
        Y.copyFrom(y);
        C.fillBytes(0xFF);
        auto call = batched.prepare(Tensor<const bf16, 3>(X.data(), left.dims, left.strides),
                                    Tensor<const bf16, 3>(Y.data(), right.dims, right.strides), C);
        call(stream);
        const auto got = C.toHost();

        // 3. Host reference in double on sampled rows (every row when small), 4. compare: the error of sums
        // in f32, one rounding to bf16
        sample::Comparison compare;
        const std::int64_t step = std::max<std::int64_t>(1, Z * M / 256 | 1);
        sample::Sums sums(N);
        std::vector<bf16> column(static_cast<std::size_t>(N));
        for (std::int64_t row = 0; row < Z * M; row += step) {
          const std::int64_t z = row / M, m = row % M;
          sums.clear();
          for (std::int64_t k = 0; k < K; ++k) {
            for (std::int64_t n = 0; n < N; ++n)
              column[n] = y[right.at(z, k, n)];
            sums.add(x[left.at(z, m, k)], column.data());
          }
          for (std::int64_t n = 0; n < N; ++n)
            compare.add(got[row * N + n], sums.value(n),
                        std::abs(sums.value(n)) * 0x1p-8 + sums.error(n) + 0x1p-133);
        }
        if (int failed = compare.report(
                fmt::format("{} {} x {} x {} x {} on {}", name, Z, M, N, K, stream.device().name())))
          return failed;

        // 5. Time
        sample::printFlops(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * Z * M * N * K);
        return 0;
      };
      return sample::Job{name, text, run};
    };
    return sample::runJobs(
        options, {job("batched_matmul", a, b), job("shared_weights", a, one), job("heads", queries, keys)});
  });
}
