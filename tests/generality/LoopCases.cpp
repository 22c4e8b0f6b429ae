// SPDX-License-Identifier: Apache-2.0
/// \file Products in loops that are not the plain one: steps left out, bounds from data, offsets from tables,
/// loops in loops, several products.
#include "tests/generality/Generality.h"

using namespace generality;

namespace {

/// A step of K is taken where the table of blocks says so.
constexpr auto blockSparse = kernel("block_sparse", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                       Tensor<const i32, 2> Blocks, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    when(Blocks.at(m / BM, k / BK) != 0, [&] {
      acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
    });
  C.store({m, n}, cast<bf16>(acc));
});

/// A is zero right of its diagonal, so that rows up to m + BM need K up to there alone.
constexpr auto triangular =
    kernel("triangular", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, min(m + BM, A.dim(1)), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
      C.store({m, n}, cast<bf16>(acc));
    });

/// The blocks of K, in the order of a table.
constexpr auto gathered = kernel("gathered_loop", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                     Tensor<const i32, 1> Table, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile s : range(0, Table.dim(0))) {
    Tile k = cast<Index>(Table.at(s)) * BK;
    acc = mma(A.load({m, k}, {BM, BK}).fill(0), B.load({k, n}, {BK, BN}).fill(0), acc);
  }
  C.store({m, n}, cast<bf16>(acc));
});

/// K comes from memory.
constexpr auto runTimeTrips = kernel("run_time_trips", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                          Tensor<const i32, 1> Length, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, cast<Index>(Length.at(0)), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<bf16>(acc));
});

constexpr auto whileLoop =
    kernel("while_loop", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN}), k = scalar<Index>(0);
      loopWhile([&] { return k < A.dim(1); },
                [&] {
                  acc = mma(A.load({m, k}, {BM, BK}).fill(0), B.load({k, n}, {BK, BN}).fill(0), acc);
                  k = k + BK;
                });
      C.store({m, n}, cast<bf16>(acc));
    });

/// A sum of products: over experts, then over K.
constexpr auto loopInLoop =
    kernel("loop_in_loop", [](Tensor<const bf16, 3> A, Tensor<const bf16, 3> B, Tensor<bf16, 2> C) {
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile e : range(0, A.dim(0)))
        for (Tile k : range(0, A.dim(2), BK))
          acc = mma(A.load({e, m, k}, {1, BM, BK}).fill(0).drop(0),
                    B.load({e, k, n}, {1, BK, BN}).fill(0).drop(0), acc);
      C.store({m, n}, cast<bf16>(acc));
    });

/// silu(X W1) * (X W3).
constexpr auto gateAndUp = kernel("gate_and_up", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> W1,
                                                    Tensor<const bf16, 2> W3, Tensor<bf16, 2> Y) {
  constexpr int Half = BN / 2;
  auto [m, n] = grid(Y, {BM, Half});
  Tile gate = zeros<f32>({BM, Half}), up = zeros<f32>({BM, Half});
  for (Tile k : range(0, X.dim(1), BK)) {
    Tile x = X.load({m, k}, {BM, BK});
    gate = mma(x, W1.load({k, n}, {BK, Half}), gate);
    up = mma(x, W3.load({k, n}, {BK, Half}), up);
  }
  Y.store({m, n}, cast<bf16>(gate * sigmoid(gate) * up));
});

/// A B C D with a middle of 64: the first product is a loop, the last one fills the rows.
constexpr auto chained =
    kernel("three_chained", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<const bf16, 2> C,
                               Tensor<const bf16, 2> D, Tensor<bf16, 2> E) {
      auto [m] = grid(E, {BM});
      Tile acc = zeros<f32>({BM, 64});
      for (Tile k : range(0, A.dim(1), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, 0}, {BK, 64}), acc);
      Tile middle = cast<bf16>(mma(cast<bf16>(acc), C.load({0, 0}, {64, 64})));
      for (Tile n : range(0, D.dim(1), BN))
        E.store({m, n}, cast<bf16>(mma(middle, D.load({0, n}, {64, BN}))));
    });

/// Rows offsets[g] to offsets[g + 1] of X times W[g]^T.
constexpr auto grouped = kernel("grouped_product", [](Tensor<const bf16, 2> X, Tensor<const bf16, 3> W,
                                                      Tensor<const i32, 1> Offsets, Tensor<bf16, 2> Y) {
  auto [g, n] = grid(W, {1, BN});
  Tile lo = cast<Index>(Offsets.at(g)), hi = cast<Index>(Offsets.at(g + 1));
  Tensor<const bf16, 2> x = X.slice(0, lo, hi);
  Tensor<bf16, 2> y = Y.slice(0, lo, hi);
  for (Tile r : range(0, hi - lo, BM)) {
    Tile acc = zeros<f32>({BM, BN});
    for (Tile k : range(0, X.dim(1), BK))
      acc = mma(x.load({r, k}, {BM, BK}), W.load({g, n, k}, {1, BN, BK}).drop(0).t(), acc);
    y.store({r, n}, cast<bf16>(acc));
  }
});

/// Shapes and operands of the cases with A [M, K] and B [K, N].
struct Square {
  std::int64_t M, N, K;
  std::vector<bf16> a, b;
  Guarded<bf16> A, B, C;
  explicit Square(Run &run, std::int64_t k = 0)
      : M(size(run, 150, 4096)), N(size(run, 72, 4096)), K(k ? k : size(run, 200, 4096)),
        a(normal<bf16>(M * K, 1)), b(normal<bf16>(K * N, 2)), A(run, a), B(run, b), C(run, M * N) {}
  double flops() const { return 2.0 * double(M) * double(N) * double(K); }
  double term(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return double(a[std::size_t(m * K + k)]) * double(b[std::size_t(k * N + n)]);
  }
  /// Sums over the k that `takes(m, k)`.
  template <class F> void check(Run &run, F takes) {
    compare(run, C, [&](std::int64_t i) {
      Sum s;
      for (std::int64_t k = 0; k < K; ++k)
        if (takes(i / N, k))
          s.add(term(i / N, i % N, k));
      return s;
    });
  }
};

} // namespace

SECTILE_CASE("block-sparse") {
  Square p(run);
  const std::int64_t rows = (p.M + BM - 1) / BM, columns = (p.K + BK - 1) / BK;
  auto taken = [](std::int64_t r, std::int64_t c) { return (r * 7 + c * 3) % 4 != 0; };
  const std::vector<i32> blocks =
      make<i32>(rows * columns, [&](std::int64_t i) { return taken(i / columns, i % columns) ? 1 : 0; });
  Guarded<i32> table(run, blocks);
  const double share = double(std::count(blocks.begin(), blocks.end(), 1)) / double(blocks.size());
  launch(run, blockSparse, p.flops() * share, p.A.view(p.M, p.K), p.B.view(p.K, p.N),
         table.view(rows, columns), p.C.view(p.M, p.N));
  p.check(run, [&](std::int64_t m, std::int64_t k) { return taken(m / BM, k / BK); });
}

SECTILE_CASE("triangular") {
  Square p(run, size(run, 200, 4096));
  for (std::int64_t m = 0; m < p.M; ++m)
    for (std::int64_t k = m + 1; k < p.K; ++k)
      p.a[std::size_t(m * p.K + k)] = bf16(0.0f);
  p.A.set(p.a);
  double flops = 0;
  for (std::int64_t m = 0; m < p.M; m += BM)
    flops += 2.0 * BM * double(p.N) * double(std::min(m + BM, p.K));
  launch(run, triangular, flops, p.A.view(p.M, p.K), p.B.view(p.K, p.N), p.C.view(p.M, p.N));
  p.check(run, [](std::int64_t m, std::int64_t k) { return k <= m; });
}

SECTILE_CASE("gathered") {
  Square p(run, size(run, 4 * BK, 4096));
  // Every second block of K, from the end.
  const std::int64_t blocks = p.K / BK / 2;
  Guarded<i32> table(run, make<i32>(blocks, [&](std::int64_t i) { return 2 * (blocks - 1 - i) + 1; }));
  launch(run, gathered, p.flops() / 2, p.A.view(p.M, p.K), p.B.view(p.K, p.N), table.view(blocks),
         p.C.view(p.M, p.N));
  p.check(run, [](std::int64_t, std::int64_t k) { return k / BK % 2 == 1; });
}

SECTILE_CASE("run-time-trips") {
  for (const std::int64_t trips : {0, 1, 3, 1000}) {
    Square p(run);
    const std::int64_t length = std::min(trips * BK, p.K);
    Guarded<i32> count(run, std::vector<i32>{i32(length)});
    launch(run, runTimeTrips, length == p.K ? p.flops() : 0, p.A.view(p.M, p.K), p.B.view(p.K, p.N),
           count.view(1), p.C.view(p.M, p.N));
    p.check(run, [&](std::int64_t, std::int64_t k) { return k < length; });
  }
}

SECTILE_CASE("while-loop") {
  Square p(run);
  launch(run, whileLoop, p.flops(), p.A.view(p.M, p.K), p.B.view(p.K, p.N), p.C.view(p.M, p.N));
  p.check(run, [](std::int64_t, std::int64_t) { return true; });
}

SECTILE_CASE("loop-in-loop") {
  const std::int64_t E = size(run, 3, 8), M = size(run, 150, 4096), N = size(run, 72, 4096),
                     K = size(run, 96, 512);
  const std::vector<bf16> a = normal<bf16>(E * M * K, 1), b = normal<bf16>(E * K * N, 2);
  Guarded<bf16> A(run, a), B(run, b), C(run, M * N);
  launch(run, loopInLoop, 2.0 * double(E * M) * double(N * K), A.view(E, M, K), B.view(E, K, N),
         C.view(M, N));
  compare(run, C, [&](std::int64_t i) {
    Sum s;
    for (std::int64_t e = 0; e < E; ++e)
      for (std::int64_t k = 0; k < K; ++k)
        s.add(double(a[std::size_t((e * M + i / N) * K + k)]) *
              double(b[std::size_t((e * K + k) * N + i % N)]));
    return s;
  });
}

SECTILE_CASE("gate-and-up") {
  Square p(run);
  const double scale = 1 / std::sqrt(double(p.K));
  const std::vector<bf16> w1 = normal<bf16>(p.K * p.N, 3, scale), w3 = normal<bf16>(p.K * p.N, 4, scale);
  Guarded<bf16> W1(run, w1), W3(run, w3);
  launch(run, gateAndUp, 2 * p.flops(), p.A.view(p.M, p.K), W1.view(p.K, p.N), W3.view(p.K, p.N),
         p.C.view(p.M, p.N));
  compare(run, p.C, [&](std::int64_t i) {
    Sum gate, up;
    for (std::int64_t k = 0; k < p.K; ++k) {
      const double x = double(p.a[std::size_t(i / p.N * p.K + k)]);
      gate.add(x * double(w1[std::size_t(k * p.N + i % p.N)]));
      up.add(x * double(w3[std::size_t(k * p.N + i % p.N)]));
    }
    const double silu = gate.value / (1 + std::exp(-gate.value));
    return Want(silu * up.value, 1.2 * gate.error() * std::abs(up.value) + up.error() * std::abs(silu) +
                                     0x1p-20 * std::abs(silu * up.value));
  });
}

SECTILE_CASE("three-chained") {
  const std::int64_t M = size(run, 150, 8192), K = size(run, 200, 8192), N = size(run, 200, 8192);
  const std::vector<bf16> a = normal<bf16>(M * K, 1), b = normal<bf16>(K * 64, 2, 1 / std::sqrt(double(K))),
                          c = normal<bf16>(64 * 64, 3, 0.125), d = normal<bf16>(64 * N, 4, 0.125);
  Guarded<bf16> A(run, a), B(run, b), C(run, c), D(run, d), E(run, M * N);
  launch(run, chained, 2.0 * double(M) * 64 * double(K + 64 + N), A.view(M, K), B.view(K, 64), C.view(64, 64),
         D.view(64, N), E.view(M, N));
  std::int64_t row = -1;
  std::vector<double> middle(64), bound(64);
  compare(run, E, [&](std::int64_t i) {
    if (i / N != row) { // of A B C, with the rounding of A B and of itself as a bound
      row = i / N;
      std::vector<Sum> first(64);
      for (std::int64_t k = 0; k < K; ++k)
        for (std::size_t j = 0; j < 64; ++j)
          first[j].add(double(a[std::size_t(row * K + k)]) * double(b[std::size_t(k) * 64 + j]));
      for (std::size_t j = 0; j < 64; ++j) {
        double value = 0, error = 0;
        for (std::size_t l = 0; l < 64; ++l) {
          const double w = double(c[l * 64 + j]);
          value += first[l].value * w;
          error += (0x1p-8 * std::abs(first[l].value) + first[l].error()) * std::abs(w);
        }
        middle[j] = value;
        bound[j] = error + 0x1p-8 * (std::abs(value) + error) + 64 * 0x1p-23 * std::abs(value);
      }
    }
    double value = 0, error = 0;
    for (std::size_t j = 0; j < 64; ++j) {
      const double w = double(d[j * std::size_t(N) + std::size_t(i % N)]);
      value += middle[j] * w;
      error += (bound[j] + 64 * 0x1p-23 * std::abs(middle[j])) * std::abs(w);
    }
    return Want(value, error);
  });
}

SECTILE_CASE("grouped") {
  const std::int64_t G = size(run, 4, 8), K = size(run, 96, 4096), N = size(run, 72, 4096);
  std::vector<i32> offsets{0};
  for (std::int64_t g = 0; g < G; ++g) // one group is empty, most end within a tile
    offsets.push_back(offsets.back() + i32(g == 1 ? 0 : size(run, 37 + 61 * g, 400 + 173 * g)));
  const std::int64_t T = offsets.back();
  const std::vector<bf16> x = normal<bf16>(T * K, 1), w = normal<bf16>(G * N * K, 2);
  Guarded<bf16> X(run, x), W(run, w), Y(run, T * N);
  Guarded<i32> table(run, offsets);
  launch(run, grouped, 2.0 * double(T * N) * double(K), X.view(T, K), W.view(G, N, K), table.view(G + 1),
         Y.view(T, N));
  compare(run, Y, [&](std::int64_t i) {
    const std::int64_t row = i / N,
                       g = std::upper_bound(offsets.begin(), offsets.end(), i32(row)) - offsets.begin() - 1;
    Sum s;
    for (std::int64_t k = 0; k < K; ++k)
      s.add(double(x[std::size_t(row * K + k)]) * double(w[std::size_t((g * N + i % N) * K + k)]));
    return s;
  });
}
