// SPDX-License-Identifier: Apache-2.0
/// \file The kinds of P08 and P18a on warpgroups: products over nothing, and inner tiles whose length no
/// instruction has. All values are whole numbers that f32 and bf16 hold exactly.
#include "tests/generality/Generality.h"

using namespace generality;

namespace {

/// alpha A B + beta C, where A and B are not read for alpha 0, nor C for beta 0.
constexpr auto update =
    kernel("update", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<const f32, 2> C,
                        Tensor<f32, 2> D, Scalar<f32> alpha, Scalar<f32> beta) {
      constexpr int Columns = 64;
      auto [m, n] = grid(D, {BM, Columns});
      Tile acc = zeros<f32>({BM, Columns});
      for (Tile k : range(0, select(alpha == 0.0f, scalar<Index>(0), A.dim(1)), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, Columns}), acc);
      Tile d = acc * alpha;
      when(beta != 0.0f, [&] { d = d + C.load({m, n}, {BM, Columns}) * beta; });
      D.store({m, n}, d);
    });

/// A batch of products whose results are boxes.
constexpr auto batch =
    kernel("batch", [](Tensor<const bf16, 3> A, Tensor<const bf16, 3> B, Tensor<bf16, 3> C) {
      auto [z, m, n] = grid(C, {1, BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(2), BK))
        acc = mma(A.load({z, m, k}, {1, BM, BK}).drop(0), B.load({z, k, n}, {1, BK, BN}).drop(0), acc);
      C.store({z, m, n}, cast<bf16>(acc));
    });

/// An inner tile of any length, operands stored either way.
template <class T, int Inner, bool TA, bool TB>
constexpr auto inner = kernel("inner", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<f32, 2> C) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(TA ? 0 : 1), Inner)) {
    Tile a = TA ? A.load({k, m}, {Inner, BM}).t() : A.load({m, k}, {BM, Inner});
    Tile b = TB ? B.load({n, k}, {BN, Inner}).t() : B.load({k, n}, {Inner, BN});
    acc = mma(a, b, acc);
  }
  C.store({m, n}, acc);
});

/// From an element of K on that is known at the launch, to columns from another one on: boxes of the TMA unit start at multiples of 16
/// bytes, these anywhere.
constexpr auto from = kernel("from", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C, Scalar<i32> first, Scalar<i32> shift) {
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN}), start = cast<Index>(first);
  for (Tile k : range(start, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({n, k}, {BN, BK}).t(), acc);
  C.store({m, n + cast<Index>(shift)}, acc);
});

/// The same of the second product, whose inner tile is the keys', and of the first, as wide as a head.
template <int D, int Keys>
constexpr auto innerKeys = kernel("inner_keys", [](Tensor<const bf16, 2> Q, Tensor<const bf16, 2> K,
                                                   Tensor<const bf16, 2> V, Tensor<f32, 2> O) {
  auto [m] = grid(O, {BM});
  Tile q = Q.load({m, 0}, {BM, D}), o = zeros<f32>({BM, D});
  for (Tile j : range(0, K.dim(0), Keys))
    o = mma(cast<bf16>(mma(q, K.load({j, 0}, {Keys, D}).t())), V.load({j, 0}, {Keys, D}), o);
  O.store({m, 0}, o);
});

int left(std::int64_t r, std::int64_t c) { return int((r * 7 + c * 3) % 5) - 2; }
int right(std::int64_t r, std::int64_t c) { return int((r * 5 + c * 2) % 7) - 3; }

template <class T>
std::vector<T> matrix(std::int64_t rows, std::int64_t columns, int (*element)(std::int64_t, std::int64_t),
                      bool across = false) {
  return make<T>(rows * columns, [&](auto i) {
    return across ? element(i % rows, i / rows) : element(i / columns, i % columns);
  });
}

template <class T, int Inner, bool TA = false, bool TB = false> void innerCase(Run &run) {
  const std::int64_t M = 130, N = 136;
  for (std::int64_t K : {2 * Inner, Inner, 2 * Inner + 8, Inner - 8}) {
    Guarded<T> a(run, matrix<T>(M, K, left, TA)), b(run, matrix<T>(K, N, right, TB));
    Guarded<f32> c(run, M * N);
    launch(run, inner<T, Inner, TA, TB>, 0, TA ? a.view(K, M) : a.view(M, K),
           TB ? b.view(N, K) : b.view(K, N), c.view(M, N));
    std::vector<f32> want(std::size_t(M * N));
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t k = 0; k < K; ++k)
        for (std::int64_t n = 0; n < N; ++n)
          want[std::size_t(m * N + n)] += f32(left(m, k) * right(k, n));
    run.same(c.get(), want, fmt::format("K {} by {}", K, Inner));
    run.check(c.guardsHold(), "guards");
  }
}

template <int D, int Keys> void keysCase(Run &run) {
  for (std::int64_t keys : {std::int64_t(2 * Keys), std::int64_t(Keys + 1), std::int64_t(0)}) {
    const std::int64_t rows = 140;
    // One 1 per row of Q and K: scores are 0 or 1.
    Guarded<bf16> q(run, make<bf16>(rows * D, [](auto i) { return i % D == i / D % 8; })),
        k(run, make<bf16>(keys * D, [](auto i) { return i % D == i / D % 16; })),
        v(run, matrix<bf16>(keys, D, left));
    Guarded<f32> o(run, rows * D);
    launch(run, innerKeys<D, Keys>, 0, q.view(rows, D), k.view(keys, D), v.view(keys, D), o.view(rows, D));
    auto want = [&](std::int64_t i) {
      int sum = 0;
      for (std::int64_t j = i / D % 8; j < keys; j += 16)
        sum += left(j, i % D);
      return sum;
    };
    run.same(o.get(), make<f32>(rows * D, want), fmt::format("{} keys by {}", keys, Keys));
    run.check(o.guardsHold(), "guards");
  }
}

void startCase(Run &run, std::int64_t first, std::int64_t shift) {
  const std::int64_t M = 130, N = 136, K = 200, width = N + 8;
  Guarded<bf16> a(run, matrix<bf16>(M, K, left)), b(run, matrix<bf16>(N, K, right));
  Guarded<f32> c(run, M * width);
  launch(run, from, 0, a.view(M, K), b.view(N, K), c.view(M, width), int(first), int(shift));
  std::vector<f32> got = c.get();
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      double want = 0;
      for (std::int64_t k = first; k < K; ++k)
        want += left(m, k) * right(n, k);
      run.check(got[std::size_t(m * width + n + shift)] == f32(want), fmt::format("row {} column {} from {} to {}", m, n, first, shift));
    }
  run.check(c.guardsHold(), "guards");
}

/// One call of `update`; A and B hold `operand`, C counts up or is NaN.
void updateCase(Run &run, std::int64_t K, float alpha, float beta, float operand, bool isAdded) {
  const std::int64_t M = 150, N = 136;
  Guarded<bf16> a(run, std::vector<bf16>(std::size_t(M * K), bf16(operand))),
      b(run, std::vector<bf16>(std::size_t(K * N), bf16(operand)));
  auto count = [](std::int64_t i) { return float(i % 1000 + 1); };
  Guarded<f32> c(run, make<f32>(M * N, [&](auto i) { return isAdded ? count(i) : qnan; })), d(run, M * N);
  const Tensor<const bf16, 2> A(K ? a.data() : nullptr, {M, K}), B(K ? b.data() : nullptr, {K, N});
  launch(run, update, 0, A, B, c.view(M, N), d.view(M, N), alpha, beta);
  run.same(d.get(),
           make<f32>(M * N,
                     [&](auto i) {
                       return (alpha == 0 ? 0 : alpha * float(K)) + (beta == 0 ? 0 : beta * count(i));
                     }),
           fmt::format("K {}, {} and {}", K, alpha, beta));
  run.check(d.guardsHold(), "guards");
}

} // namespace

SECTILE_CASE("edge/no-k") {
  for (float beta : {2.0f, 1.0f, 0.0f})
    updateCase(run, 0, 1, beta, 0, beta != 0);
  for (float operand : {1.0f, qnan}) {
    updateCase(run, 4, 0, 2, operand, true);
    updateCase(run, 200, 0, 0, operand, false);
  }
  updateCase(run, 200, 1, 2, 1, true);
}

SECTILE_CASE("edge/nothing") { // before, between and after ordinary launches: nothing is written
  struct Dims {
    std::int64_t Z, M, N, K;
  };
  for (auto [Z, M, N, K] : {Dims{0, 64, 72, 64},
                            {2, 130, 72, 96},
                            {2, 0, 72, 64},
                            {2, 64, 0, 64},
                            {1, 64, 72, 0},
                            {2, 130, 72, 96},
                            {0, 0, 0, 0}}) {
    Guarded<bf16> a(run, std::vector<bf16>(std::size_t(Z * M * K), bf16(1.0f))),
        b(run, std::vector<bf16>(std::size_t(Z * K * N), bf16(1.0f)));
    Guarded<bf16> c(run, std::max<std::int64_t>(Z * M * N, 5));
    const bool isEmpty = Z * M * N == 0;
    auto view = [](Guarded<bf16> &memory, std::int64_t z, std::int64_t r, std::int64_t s) {
      return Tensor<bf16, 3>(z * r * s == 0 ? nullptr : memory.data(), {z, r, s});
    };
    launch(run, batch, 0, view(a, Z, M, K), view(b, Z, K, N), view(c, Z, M, N));
    const std::string bits = c.bits();
    if (isEmpty)
      run.check(std::all_of(bits.begin(), bits.end(), [](char byte) { return byte == '\xff'; }),
                "something was written");
    else
      run.same(c.get(), std::vector<bf16>(std::size_t(Z * M * N), bf16(float(K))), fmt::format("K {}", K));
    run.check(c.guardsHold(), "guards");
  }
}

SECTILE_CASE("edge/starts") {
  for (std::int64_t first : {0, 1, 7, 8, 39, 130, 200})
    startCase(run, first, first % 5);
}

SECTILE_CASE("edge/inner-48") { innerCase<bf16, 48>(run); }
SECTILE_CASE("edge/inner-80") { innerCase<bf16, 80>(run); }
SECTILE_CASE("edge/inner-112") { innerCase<f16, 112>(run); }
SECTILE_CASE("edge/inner-48-tn") { innerCase<bf16, 48, true, false>(run); }
SECTILE_CASE("edge/inner-80-nt") { innerCase<bf16, 80, false, true>(run); }
SECTILE_CASE("edge/inner-80-tt") { innerCase<f16, 80, true, true>(run); }
SECTILE_CASE("edge/keys-48") { keysCase<80, 48>(run); }
SECTILE_CASE("edge/keys-80") { keysCase<48, 80>(run); }
SECTILE_CASE("edge/keys-96") { keysCase<96, 96>(run); }
