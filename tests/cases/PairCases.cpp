// SPDX-License-Identifier: Apache-2.0
/// \file P02: products and attention whose blocks load in pairs (Config::multicast), also where the last pair has one program, beside
/// those whose blocks load alone.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

/// `TB`: B lies as [N, K].
template <bool TB>
constexpr auto product = kernel("pairs", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256}), BN = cfg.pick("BN", {256, 64, 128}), BK = cfg.pick("BK", {64});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK)) {
    Tile b = TB ? B.load({n, k}, {BN, BK}).t() : B.load({k, n}, {BK, BN});
    acc = mma(A.load({m, k}, {BM, BK}), b, acc);
  }
  C.store({m, n}, acc);
});

/// C += A B, where C is read before it is written.
constexpr auto added = kernel("pairs_added", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C) {
  auto [m, n] = grid(C, {128, 128});
  Tile acc = zeros<f32>({128, 128});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({k, n}, {64, 128}), acc);
  C.store({m, n}, C.load({m, n}, {128, 128}) + acc);
});

/// Every query with all keys, without a softmax: the scores, rounded, are the first operands of the second product.
constexpr auto linear = kernel("pairs_attention", [](Tensor<const bf16, 3> Q, Tensor<const bf16, 3> K, Tensor<const bf16, 3> V, Tensor<f32, 3> O) {
  auto [h, q] = grid(O, {1, 128});
  const Tile queries = Q.load({h, q, 0}, {1, 128, 64}).drop(0);
  Tile acc = zeros<f32>({128, 64});
  for (Tile k : range(0, K.dim(1), 64)) {
    Tile s = mma(queries, K.load({h, k, 0}, {1, 64, 64}).drop(0).t(), zeros<f32>({128, 64}));
    acc = mma(cast<bf16>(s).fill(0), V.load({h, k, 0}, {1, 64, 64}).drop(0), acc);
  }
  O.store({h, q, 0}, acc);
});

/// Small integers: sums of up to 2^24 are exact.
std::vector<bf16> digits(std::int64_t count, int seed) {
  return make<bf16>(count, [&](std::int64_t i) { return double((i * 7 + i / 5 * 3 + seed) % 5 - 2); });
}

template <bool TB> void pairs(Run &run, std::int64_t M, std::int64_t N, std::int64_t K, const Config &tiles) {
  const std::vector<bf16> a = digits(M * K, 1), b = digits(N * K, 2);
  std::vector<f32> want(std::size_t(M * N), 0);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j)
        want[std::size_t(i * N + j)] += float(a[std::size_t(i * K + k)]) * float(b[std::size_t(TB ? j * K + k : k * N + j)]);
  Guarded<bf16> A(run, a), B(run, b);
  Guarded<f32> C(run, M * N);
  for (int multicast : {1, 2})
    for (int pingpong : {1, 2}) {
      Config config = tiles;
      config.multicast = multicast;
      config.pingpong = pingpong;
      for (int round = 0; round < 3; ++round) {
        C.poison();
        product<TB>.with(config)(run.stream(), Tensor<const bf16, 2>(A.data(), {M, K}), Tensor<const bf16, 2>(B.data(), {TB ? N : K, TB ? K : N}),
                                 C.view(M, N));
        run.stream().synchronize();
        run.same(C.get(), want, fmt::format("C, {} x {} x {}, with multicast {}, pingpong {}", M, N, K, multicast, pingpong));
        run.check(C.guardsHold(), "guard bytes of C were written");
      }
      run.beat();
    }
}

} // namespace

SECTILE_CASE("P02/pairs") {
  const Config wide = Config().set("BM", 128).set("BN", 256), high = Config().set("BM", 128).set("BN", 64), small = Config().set("BM", 64).set("BN", 128);
  for (std::int64_t programs : {1, 2, 3, 4}) {
    pairs<true>(run, 128 * programs - 28, 264, 136, wide);
    pairs<false>(run, 136, 64 * programs - 24, 200, high);
    pairs<false>(run, 64 * programs, 128, 64, small);
  }
  pairs<true>(run, 300, 256, 8, wide);
  if (run.isGpu()) {
    // More pairs than run at once, an odd number along the axis.
    pairs<true>(run, 128 * 17, 256 * 9, 136, wide);
    pairs<false>(run, 128 * 20 + 8, 256 * 16, 64, wide);
  }
}

SECTILE_CASE("P02/pairs-in-place") {
  const std::int64_t M = run.isGpu() ? 128 * 37 : 384, N = run.isGpu() ? 128 * 12 : 128, K = 64;
  const std::vector<bf16> a = digits(M * K, 1), b = digits(N * K, 2);
  std::vector<f32> want(std::size_t(M * N), 1);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j)
        want[std::size_t(i * N + j)] += float(a[std::size_t(i * K + k)]) * float(b[std::size_t(k * N + j)]);
  Guarded<bf16> A(run, a), B(run, b);
  Guarded<f32> C(run, M * N);
  Config config;
  config.multicast = 2;
  for (int round = 0; round < 5; ++round) {
    C.set(std::vector<f32>(std::size_t(M * N), 1));
    added.with(config)(run.stream(), Tensor<const bf16, 2>(A.data(), {M, K}), Tensor<const bf16, 2>(B.data(), {K, N}), C.view(M, N));
    run.stream().synchronize();
    run.same(C.get(), want, "C");
  }
}

SECTILE_CASE("P02/pairs-attention") {
  for (std::int64_t queries : {128, 200, 384, 900})
    for (std::int64_t keys : {0, 40, 64, 200, 520}) {
      const std::int64_t H = 2;
      const std::vector<bf16> q = digits(H * queries * 64, 1), k = digits(H * keys * 64, 2), v = digits(H * keys * 64, 3);
      std::vector<f32> want(std::size_t(H * queries * 64), 0);
      for (std::int64_t row = 0; row < H * queries; ++row)
        for (std::int64_t key = row / queries * keys; key < (row / queries + 1) * keys; ++key) {
          float s = 0;
          for (std::int64_t d = 0; d < 64; ++d)
            s += float(q[std::size_t(row * 64 + d)]) * float(k[std::size_t(key * 64 + d)]);
          for (std::int64_t d = 0; d < 64; ++d)
            want[std::size_t(row * 64 + d)] += float(bf16(s)) * float(v[std::size_t(key * 64 + d)]);
        }
      Guarded<bf16> Q(run, q), K(run, k), V(run, v);
      Guarded<f32> O(run, H * queries * 64);
      for (int multicast : {0, 1, 2})
        for (int round = 0; round < 2; ++round) {
          Config config;
          config.multicast = multicast;
          O.poison();
          linear.with(config)(run.stream(), Tensor<const bf16, 3>(Q.data(), {H, queries, 64}), Tensor<const bf16, 3>(K.data(), {H, keys, 64}),
                              Tensor<const bf16, 3>(V.data(), {H, keys, 64}), O.view(H, queries, 64));
          run.stream().synchronize();
          run.same(O.get(), want, fmt::format("O of {} queries and {} keys with multicast {}", queries, keys, multicast));
        }
      run.beat();
    }
}
