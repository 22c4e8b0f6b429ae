// SPDX-License-Identifier: Apache-2.0
/// \file P02, P16c: products of operands that the TMA unit cannot load as they lie, or that it rounds.
#include "tests/cases/Cases.h"

#include <bit>
#include <limits>

using namespace cases;

namespace {

/// Tiles of a size that warpgroups take. `TB`: B lies as [N, K].
template <class T, class Acc, class Out, bool TB, MmaPolicy policy = MmaPolicy::exact>
constexpr auto product = kernel("product", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<Out, 2> C) {
  constexpr int Depth = 64 / int(sizeof(T));
  auto [m, n] = grid(C, {64, 64});
  Tile acc = zeros<Acc>({64, 64});
  for (Tile k : range(0, A.dim(1), Depth)) {
    Tile b = TB ? B.load({n, k}, {64, Depth}).t() : B.load({k, n}, {Depth, 64});
    acc = mma(A.load({m, k}, {64, Depth}), b, acc, policy);
  }
  C.store({m, n}, acc);
});

/// Small integers, whose products are exact in every type.
template <class T> std::vector<T> digits(std::int64_t count, int seed) {
  return make<T>(count, [&](std::int64_t i) { return double((i * 7 + i / 5 * 3 + seed) % 5 - 2); });
}

template <class T, class Acc, bool TB, MmaPolicy policy = MmaPolicy::exact> void copied(Run &run) {
  constexpr std::int64_t M = 130, N = 70, K = 135;
  // Rows of an odd pitch from an odd place.
  constexpr std::int64_t pitchA = K + 6, rowsB = TB ? N : K, pitchB = (TB ? K : N) + 5;
  const std::vector<T> a = digits<T>(M * pitchA, 1), b = digits<T>(rowsB * pitchB, 2);
  Guarded<T> A(run, a, 1), B(run, b, 3);
  Guarded<Acc> C(run, M * N);
  std::vector<Acc> want;
  for (std::int64_t i = 0; i < M * N; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k)
      sum += double(a[std::size_t(i / N * pitchA + k)]) *
             double(b[std::size_t(TB ? i % N * pitchB + k : k * pitchB + i % N)]);
    want.push_back(Acc(sum));
  }
  for (int repack : {0, 1, 2}) {
    Config config;
    config.repack = repack;
    for (int round = 0; round < 3; ++round) {
      C.poison();
      product<T, Acc, Acc, TB, policy>.with(config)(run.stream(), Tensor<const T, 2>(A.data(), {M, K}, {pitchA, 1}),
                                                    Tensor<const T, 2>(B.data(), {rowsB, TB ? K : N}, {pitchB, 1}),
                                                    C.view(M, N));
      run.stream().synchronize();
      run.same(C.get(), want, fmt::format("C with repack {}", repack));
      run.check(C.guardsHold(), "guard bytes of C were written");
    }
  }
}

} // namespace

SECTILE_CASE("P02/copied-bf16") {
  copied<bf16, f32, false>(run);
  copied<bf16, f32, true>(run);
}
SECTILE_CASE("P02/copied-f16") { copied<f16, f32, true>(run); }
SECTILE_CASE("P02/copied-8-bit") {
  copied<i8, i32, false>(run);
  copied<i8, i32, true>(run);
  copied<e4m3, f32, false>(run);
  copied<e5m2, f32, true>(run);
}
SECTILE_CASE("P02/copied-tf32") {
  copied<f32, f32, false, MmaPolicy::tf32>(run);
  copied<f32, f32, true, MmaPolicy::tf32>(run);
}
SECTILE_CASE("P02/copied-large") {
  // Two streams at a time, each with copies of its own; 8 launches each.
  const std::int64_t M = run.isGpu() ? 1000 : 100, N = run.isGpu() ? 1030 : 90, K = run.isGpu() ? 999 : 77;
  const std::vector<bf16> a = digits<bf16>(M * K, 1), b = digits<bf16>(N * K, 2), other = digits<bf16>(M * K, 3);
  Guarded<bf16> A(run, a), B(run, b), A2(run, other);
  Guarded<f32> C(run, M * N), C2(run, M * N), first(run, M * N), second(run, M * N);
  const auto &k = product<bf16, f32, f32, true>;
  Config plain;
  plain.repack = 1;
  k.with(plain)(run.stream(), A.view(M, K), B.view(N, K), first.view(M, N));
  k.with(plain)(run.stream(), A2.view(M, K), B.view(N, K), second.view(M, N));
  run.stream().synchronize();
  Stream side(run.device());
  C.poison();
  C2.poison();
  run.stream().synchronize();
  for (int i = 0; i < 8; ++i) {
    k(run.stream(), A.view(M, K), B.view(N, K), C.view(M, N));
    k(side, A2.view(M, K), B.view(N, K), C2.view(M, N));
  }
  run.stream().synchronize();
  side.synchronize();
  run.same(C.get(), first.get(), "C");
  run.same(C2.get(), second.get(), "C of the other stream");
}
SECTILE_CASE("P16c/specials") {
  // Every element of A meets one 1.
  std::vector<f32> values;
  for (std::uint32_t bits : {0x3f800fffu, 0x3f801000u, 0x3f801001u, 0x3f802fffu, 0x3f803000u, 0x3f803001u, 0x7f7fffffu, 0x7f800000u,
                             0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x00000001u, 0x007fffffu, 0x00800fffu})
    for (std::uint32_t sign : {0u, 0x80000000u})
      values.push_back(std::bit_cast<f32>(bits | sign));
  const auto count = std::int64_t(values.size());
  Guarded<f32> A(run, make<f32>(64 * 32, [&](std::int64_t i) { return i % 32 == 0 && i / 32 < count ? values[std::size_t(i / 32)] : 0; })),
      B(run, make<f32>(64 * 32, [](std::int64_t i) { return i % 32 == 0; })), C(run, 64 * 64);
  C.poison();
  product<f32, f32, f32, true, MmaPolicy::tf32>(run.stream(), A.view(64, 32), B.view(64, 32), C.view(64, 64));
  run.stream().synchronize();
  const std::vector<f32> c = C.get();
  for (std::int64_t i = 0; i < 64 * 64; ++i) {
    const f32 x = i / 64 < count ? values[std::size_t(i / 64)] : 0, got = c[std::size_t(i)];
    const auto bits = std::bit_cast<std::uint32_t>(x);
    // The policy allows to keep all bits, or the nearest with 10 fraction bits; numbers below 2^-126 may be lost.
    const f32 nearest = std::isfinite(x) ? std::bit_cast<f32>((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu) : x;
    const bool isTiny = std::abs(x) < std::numeric_limits<f32>::min();
    run.check(std::isnan(x) ? std::isnan(got) : got == x || got == nearest || (isTiny && got == 0),
              fmt::format("tf32 of {:#010x}: {}/{}", bits, got, nearest));
  }
}
