// SPDX-License-Identifier: Apache-2.0
/// \file The kinds of P02, P08a, P18a and P18c: products of operands that lie anywhere, products over
/// nothing, inner tiles of any length, products in a row. All values are integers that f32 holds exactly.
#include "tests/cases/Products.h"

using namespace cases;

namespace {

int left(std::int64_t r, std::int64_t c) { return int((r * 7 + c * 3) % 5) - 2; }
int right(std::int64_t r, std::int64_t c) { return int((r * 5 + c * 2) % 7) - 3; }

/// left times right, row after row.
std::vector<int> productOf(std::int64_t M, std::int64_t N, std::int64_t K) {
  std::vector<int> sums(std::size_t(M * N));
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t n = 0; n < N; ++n)
        sums[std::size_t(m * N + n)] += left(m, k) * right(k, n);
  return sums;
}

/// P02 and its neighbours: what lies around the operands would change every sum, what lies around the result
/// stays.
template <class T, int BM, int BN, int BK>
void placedProduct(Run &run, std::int64_t M, std::int64_t N, std::int64_t K, Place inA, Place inB, Place inC,
                   bool schedules = true) {
  using Out = SumOf<T>;
  Placed<T> a(run, M, K, inA, number<T>(100)), b(run, K, N, inB, number<T>(100));
  Placed<Out> c(run, M, N, inC, Out());
  a.fill(left);
  b.fill(right);
  const std::vector<int> sums = productOf(M, N, K);
  std::vector<Out> poison(c.get().size());
  std::memset(poison.data(), 0xFF, poison.size() * sizeof(Out));
  auto launch = [&](const Config &config) {
    product<T, BM, BN, BK>.with(config)(run.stream(), a.view(), b.view(), c.view());
  };
  auto verify = [&] {
    const std::vector<Out> got = c.get(),
                           want = c.with([&](auto r, auto n) { return sums[std::size_t(r * N + n)]; });
    const std::vector<Out> mark = c.with([](auto, auto) { return 1; }); // 1 at the elements, 0 around
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool inside = double(mark[i]) != 0;
      if (!sameValue(got[i], inside ? want[i] : poison[i]))
        return run.fail(fmt::format("C[{}]: {}/{}", i, show(got[i]), inside ? show(want[i]) : "untouched"));
    }
    run.check(true, "C");
  };
  const int repeats = run.isGpu() ? 10 : 2;
  if (schedules)
    run.sweepPipelines({&c.guarded()}, launch, verify, repeats);
  else
    run.byDefault({&c.guarded()}, launch, verify, repeats);
}

/// Operands off their alignment by one element, pitches that are no multiple of 16 bytes, of 8, of 4, either
/// way.
template <class T> void everyPlace(Run &run) {
  constexpr std::int64_t M = 130, N = 72, K = 100;
  constexpr std::int64_t vector = 16 / std::int64_t(sizeof(T)); // elements
  auto go = [&](Place a, Place b, Place c, bool schedules = false) {
    placedProduct<T, 128, 64, 64>(run, M, N, K, a, b, c, schedules);
  };
  go({K}, {N}, {N}, true);
  go({K + 1}, {N + 1}, {N + 1});
  go({K + vector / 2}, {N + vector / 2}, {N + 2});
  go({112, 1}, {80, 1}, {80, 1});       // base off, pitch aligned
  go({112, vector / 2}, {80}, {80, 2}); // half a vector off
  go({M, 0, true}, {K, 0, true}, {N});  // both by columns
  go({M + 1, 1, true}, {N + 1, 1}, {M, 0, true});
  go({K + 1, 1}, {K + 3, 1, true}, {M + 1, 1, true}, true);
}

/// D = alpha A B + beta C, where A and B are not read for alpha 0, nor C for beta 0.
template <class T>
constexpr auto blas = kernel("blas", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<const f32, 2> C,
                                        Tensor<f32, 2> D, Scalar<f32> alpha, Scalar<f32> beta) {
  auto [m, n] = grid(D, {64, 64});
  Tile acc = zeros<f32>({64, 64});
  for (Tile k : range(0, select(alpha == 0.0f, scalar<Index>(0), A.dim(1)), 64))
    acc = mma(A.load({m, k}, {64, 64}), B.load({k, n}, {64, 64}), acc);
  Tile d = acc * alpha;
  when(beta != 0.0f, [&] { d = d + C.load({m, n}, {64, 64}) * beta; });
  D.store({m, n}, d);
});

/// One call; `operand` and `added` fill A, B and C.
template <class T>
void blasCase(Run &run, std::int64_t M, std::int64_t N, std::int64_t K, float alpha, float beta,
              float operand, float added, const std::function<float(std::int64_t)> &want) {
  const std::vector<T> as(std::size_t(M * K), number<T>(operand)), bs(std::size_t(K * N), number<T>(operand));
  Guarded<T> a(run, as), b(run, bs);
  const std::vector<f32> cs =
      make<f32>(M * N, [&](auto i) { return std::isnan(added) ? added : float(i + 1); });
  Guarded<f32> c(run, cs), d(run, M * N);
  // Without elements there is nothing to point at.
  const Tensor<const T, 2> A(K && M ? a.data() : nullptr, {M, K}), B(K && N ? b.data() : nullptr, {K, N});
  run.sweepPipelines(
      {&d},
      [&](const Config &config) {
        blas<T>.with(config)(run.stream(), A, B, c.view(M, N), d.view(M, N), alpha, beta);
      },
      [&] {
        run.same(d.get(), make<f32>(M * N, want),
                 fmt::format("{} x {} x {}, {} and {}", M, N, K, alpha, beta));
      },
      run.isGpu() ? 10 : 2);
  run.same(c.get(), cs, "C");
}

template <class T> void overNothing(Run &run) {
  for (auto [M, N] : {std::pair<std::int64_t, std::int64_t>{2, 3}, {130, 70}}) {
    blasCase<T>(run, M, N, 0, 1, 2, 0, 1, [](auto i) { return 2.0f * float(i + 1); });
    blasCase<T>(run, M, N, 0, 1, 1, 0, 1, [](auto i) { return float(i + 1); });
    blasCase<T>(run, M, N, 0, 1, 0, 0, qnan, [](auto) { return 0.0f; });
    for (float operand : {1.0f, qnan}) {
      blasCase<T>(run, M, N, 4, 0, 2, operand, 1, [](auto i) { return 2.0f * float(i + 1); });
      blasCase<T>(run, M, N, 4, 0, 0, operand, qnan, [](auto) { return 0.0f; });
    }
    blasCase<T>(run, M, N, 4, 0.5f, 2, 1, 1, [](auto i) { return 2.0f + 2.0f * float(i + 1); });
    blasCase<T>(run, M, N, 1, 2, 0, 1, qnan, [](auto) { return 2.0f; });
    blasCase<T>(run, M, N, 65, 1, 1, 1, 1, [](auto i) { return 65.0f + float(i + 1); });
  }
  blasCase<T>(run, 0, 3, 4, 1, 1, 1, 1, [](auto) { return 0.0f; });
  blasCase<T>(run, 3, 0, 4, 1, 1, 1, 1, [](auto) { return 0.0f; });
}

/// P18a: an inner tile of any length, and outer ones too.
template <class T, int BM, int BN, int BK> void innerTiles(Run &run) {
  for (std::int64_t K :
       {std::int64_t(2 * BK), std::int64_t(BK), std::int64_t(2 * BK + 1), std::int64_t(BK - 1)})
    placedProduct<T, BM, BN, BK>(run, 64, 96, K, {K}, {96}, {96}, K == 2 * BK);
}
/// 128 x 128 outside. Every schedule where even one warp's code is soon assembled.
template <class T, int BK> void wideTiles(Run &run) {
  for (std::int64_t K : {std::int64_t(2 * BK), std::int64_t(3 * BK - 1)})
    placedProduct<T, 128, 128, BK>(run, 130, 136, K, {(K + 15) / 16 * 16}, {144}, {136}, K == 2 * BK && sizeof(T) == 2 && BK < 48);
}
template <class T> void innerKinds(Run &run) {
  innerTiles<T, 64, 64, 48>(run);
  innerTiles<T, 64, 64, 80>(run);
  innerTiles<T, 64, 96, 112>(run);
  innerTiles<T, 48, 40, 24>(run);
  innerTiles<T, 64, 32, 8>(run);
}

/// P18c: a product of a product, once and in a loop, and three in a row; 128 rows take two warpgroups.
template <class T, int M, int D>
constexpr auto looped = kernel("looped_products", [](Tensor<const T, 2> Q, Tensor<const T, 2> K,
                                                     Tensor<const T, 2> V, Tensor<f32, 2> O) {
  auto [m] = grid(O, {M});
  Tile q = Q.load({m, 0}, {M, D}), o = zeros<f32>({M, D});
  for (Tile j : range(0, K.dim(0), 64)) {
    Tile s = mma(q, K.load({j, 0}, {64, D}).t());
    o = mma(cast<T>(s), V.load({j, 0}, {64, D}), o);
  }
  O.store({m, 0}, o);
});
template <class T>
constexpr auto threeProducts = kernel("three_products",
                                      [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<f32, 2> C) {
                                        Tile a = A.load({0, 0}, {64, 64}), b = B.load({0, 0}, {64, 64});
                                        Tile first = cast<T>(mma(a, b)), second = cast<T>(mma(first, b));
                                        C.store({0, 0}, mma(b.t(), second));
                                      });

template <class T, int M, int D> void inARow(Run &run, std::int64_t rows, std::int64_t keys) {
  // One 1 per row of Q and K, so that every score is 0 or 1, and sums of V stay small.
  Guarded<T> q(run, make<T>(rows * D, [](auto i) { return i % D == i / D % 8; })),
      k(run, make<T>(keys * D, [](auto i) { return i % D == i / D % 16; })),
      v(run, make<T>(keys * D, [](auto i) { return (i / D + i % D) % 5 - 2; }));
  Guarded<f32> o(run, rows * D);
  run.sweepPipelines(
      {&o},
      [&](const Config &config) {
        looped<T, M, D>.with(config)(run.stream(), q.view(rows, D), k.view(keys, D), v.view(keys, D),
                                     o.view(rows, D));
      },
      [&] {
        run.same(o.get(),
                 make<f32>(rows * D,
                           [&](auto i) {
                             float sum = 0;
                             for (std::int64_t j = 0; j < keys; ++j)
                               if (j % 16 == i / D % 8)
                                 sum += float((j + i % D) % 5 - 2);
                             return sum;
                           }),
                 "O");
      },
      run.isGpu() ? 20 : 2);
}
template <class T> void threeInARow(Run &run) {
  const std::vector<T> ones(64 * 64, number<T>(1));
  Guarded<T> a(run, ones), b(run, make<T>(64 * 64, [](auto i) { return i % 64 == i / 64 ? 2 : 0; }));
  Guarded<f32> c(run, 64 * 64);
  run.sweepPipelines(
      {&c},
      [&](const Config &config) {
        threeProducts<T>.with(config)(run.stream(), a.view(64, 64), b.view(64, 64), c.view(64, 64));
      },
      [&] { run.same(c.get(), std::vector<f32>(64 * 64, 8), "C"); });
}

constexpr auto wrongChain = kernel("wrong_chain", [](Tensor<const bf16, 2> A, Tensor<f32, 2> C) {
  Tile s = mma(A.load({0, 0}, {64, 64}), A.load({0, 0}, {64, 32}));
  C.store({0, 0}, mma(cast<bf16>(s), A.load({0, 0}, {64, 64})));
});
constexpr auto unrounded = kernel("unrounded", [](Tensor<const bf16, 2> A, Tensor<f32, 2> C) {
  Tile s = mma(A.load({0, 0}, {64, 64}), A.load({0, 0}, {64, 64}));
  C.store({0, 0}, mma(s, A.load({0, 0}, {64, 64})));
});

} // namespace

SECTILE_CASE("P02/places/bf16") { everyPlace<bf16>(run); }
SECTILE_CASE("P02/places/f16") { everyPlace<f16>(run); }
SECTILE_CASE("P02/places/f32") { everyPlace<f32>(run); }
SECTILE_CASE("P02/places/e4m3") { everyPlace<e4m3>(run); }
SECTILE_CASE("P02/places/i8") { everyPlace<i8>(run); }
SECTILE_CASE("P02a/warpgroups") { // the case itself, with tiles that two warpgroups share
  placedProduct<bf16, 128, 128, 64>(run, 256, 130, 511, {511}, {130}, {130});
  placedProduct<bf16, 128, 128, 64>(run, 256, 130, 512, {520, 1}, {136, 1}, {132, 1});
}
SECTILE_CASE("P08a/bf16") { overNothing<bf16>(run); }
SECTILE_CASE("P08a/f16") { overNothing<f16>(run); }
SECTILE_CASE("P08a/f32") { overNothing<f32>(run); }
SECTILE_CASE("P08a/e4m3") { overNothing<e4m3>(run); }
SECTILE_CASE("P08a/in-place") { // D is C
  const std::vector<f32> cs = make<f32>(130 * 70, [](auto i) { return i % 9; });
  for (std::int64_t K : {0, 4, 100}) {
    Guarded<bf16> a(run, std::vector<bf16>(std::size_t(130 * K), bf16(1.0f))),
        b(run, std::vector<bf16>(std::size_t(K * 70), bf16(1.0f)));
    Guarded<f32> c(run, cs);
    blas<bf16>(run.stream(), a.view(130, K), b.view(K, 70), c.view(130, 70), c.view(130, 70), 1.0f, 2.0f);
    run.stream().synchronize();
    run.same(c.get(), make<f32>(130 * 70, [&](auto i) { return float(K) + 2 * cs[std::size_t(i)]; }), "C");
    run.check(c.guardsHold(), "guards");
  }
}
SECTILE_CASE("P08a/refused") { // memory is asked for where there are elements
  Guarded<f32> d(run, 6);
  const Tensor<const bf16, 2> none(nullptr, {2, 4}), empty(nullptr, {0, 3});
  run.refused([&] { blas<bf16>(run.stream(), none, empty, d.view(2, 3), d.view(2, 3), 1.0f, 1.0f); },
              {"null_pointer", "[2, 4]"}, "A without memory");
}
SECTILE_CASE("P18a/kinds/bf16") { innerKinds<bf16>(run); }
SECTILE_CASE("P18a/kinds/f16") { innerKinds<f16>(run); }
SECTILE_CASE("P18a/kinds/f32") { innerKinds<f32>(run); }
SECTILE_CASE("P18a/kinds/e4m3") { innerKinds<e4m3>(run); }
SECTILE_CASE("P18a/kinds/i8") { innerKinds<i8>(run); }
SECTILE_CASE("P18a/kinds/e5m2") { innerTiles<e5m2, 64, 64, 80>(run); }
SECTILE_CASE("P18a/short") { // shorter than any instruction takes
  innerTiles<bf16, 64, 64, 1>(run);
  innerTiles<bf16, 64, 64, 3>(run);
  innerTiles<f16, 64, 64, 17>(run);
  innerTiles<e4m3, 64, 64, 31>(run);
}
SECTILE_CASE("P18a/warpgroups") { // tiles that two warpgroups share, inner ones that fill no row of shared memory, or more than one
  wideTiles<bf16, 24>(run);
  wideTiles<bf16, 40>(run);
  wideTiles<f16, 72>(run);
  wideTiles<bf16, 96>(run);
  wideTiles<bf16, 144>(run);
  wideTiles<e4m3, 48>(run);
  wideTiles<e4m3, 160>(run);
}
SECTILE_CASE("P18c/loop/bf16") {
  inARow<bf16, 64, 64>(run, 64, 192);
  inARow<bf16, 128, 64>(run, 200, 100);
  inARow<bf16, 128, 128>(run, 128, 64);
}
SECTILE_CASE("P18c/loop/f16") {
  inARow<f16, 64, 96>(run, 100, 130);
  inARow<f16, 128, 64>(run, 256, 0);
}
SECTILE_CASE("P18c/three") {
  threeInARow<bf16>(run);
  threeInARow<f16>(run);
}
SECTILE_CASE("P18c/refused") {
  Guarded<bf16> a(run, std::vector<bf16>(64 * 64, bf16(1.0f)));
  Guarded<f32> c(run, 64 * 64);
  run.refused([&] { wrongChain(run.stream(), a.view(64, 64), c.view(64, 64)); },
              {"GemmCases.cpp:", "wrong_chain", "32", "64", "mma_c"}, "K of the second");
  run.refused([&] { unrounded(run.stream(), a.view(64, 64), c.view(64, 64)); },
              {"GemmCases.cpp:", "unrounded", "f32", "bf16"}, "types of the second");
}
