// SPDX-License-Identifier: Apache-2.0
/// \file The kinds of P08: products over nothing under every schedule choice, in a row with others that are over something, in
/// batches; and launches over nothing of kernels with products, with loops that blocks share, with long rows.
#include "tests/cases/Products.h"

using namespace cases;

namespace {

struct Choice {
  const char *name;
  int Config::*member;
  std::vector<int> values;
};
const Choice choices[] = {{"async", &Config::async, {1, 2}},         {"pingpong", &Config::pingpong, {1, 2}}, {"multicast", &Config::multicast, {1, 2}},
                          {"snake", &Config::snake, {1, 2}},         {"streamk", &Config::streamk, {1, 2}},   {"overlap", &Config::overlap, {1, 2}},
                          {"keep", &Config::keep, {1, 2}},           {"persistent", &Config::persistent, {2}}, {"prefetch", &Config::prefetch, {2}},
                          {"evict", &Config::evict, {2}},            {"split", &Config::split, {2, 7}},       {"raster", &Config::raster, {1, 3}},
                          {"blocks", &Config::blocks, {1, 2}},       {"repack", &Config::repack, {1, 2}}};

/// Every choice by hand, one after the other: what it cannot act on runs all the same.
void underEachChoice(Run &run, const Run::Outs &outs, const std::function<void(const Config &)> &launch, const std::function<void()> &verify) {
  for (const Choice &choice : choices)
    for (int value : choice.values) {
      Config config;
      config.*choice.member = value;
      run.byDefault(
          outs, [&](const Config &) { launch(config); }, verify, run.isGpu() ? 5 : 1);
    }
}

template <class T, int BM, int BN, int BK> void productOver(Run &run, std::int64_t M, std::int64_t N, std::int64_t K) {
  using Out = SumOf<T>;
  Guarded<T> a(run, std::vector<T>(std::size_t(M * K), number<T>(1))), b(run, std::vector<T>(std::size_t(K * N), number<T>(1)));
  Guarded<Out> c(run, M * N);
  const Tensor<const T, 2> A(K ? a.data() : nullptr, {M, K}), B(K ? b.data() : nullptr, {K, N});
  underEachChoice(
      run, {&c}, [&](const Config &config) { product<T, BM, BN, BK>.with(config)(run.stream(), A, B, c.view(M, N)); },
      [&] { run.same(c.get(), std::vector<Out>(std::size_t(M * N), Out(K)), fmt::format("{} x {} x {}", M, N, K)); });
}

/// Group g adds up Counts[g] of K: some groups nothing at all, beside those that block and pipeline go on to.
constexpr auto groups = kernel("groups", [](Tensor<const bf16, 3> A, Tensor<const bf16, 3> B, Tensor<const i32, 1> Counts, Tensor<f32, 3> C) {
  auto [g, m, n] = grid(C, {1, 64, 64});
  Tile acc = zeros<f32>({64, 64});
  for (Tile k : range(0, cast<Index>(Counts.at(g)), 64))
    acc = mma(A.load({g, m, k}, {1, 64, 64}).drop(0), B.load({g, k, n}, {1, 64, 64}).drop(0), acc);
  C.store({g, m, n}, reshape(acc, {1, 64, 64}));
});

/// Two products in one loop, and one behind it that has something to multiply whatever the loop had.
constexpr auto chain = kernel("chain", [](Tensor<const bf16, 2> Q, Tensor<const bf16, 2> K, Tensor<const bf16, 2> W, Tensor<f32, 2> O) {
  auto [m] = grid(O, {64});
  Tile q = Q.load({m, 0}, {64, 64}), o = zeros<f32>({64, 64});
  for (Tile j : range(0, K.dim(0), 64)) {
    Tile keys = K.load({j, 0}, {64, 64}), s = mma(q, keys.t());
    o = mma(cast<bf16>(s), keys, o);
  }
  O.store({m, 0}, mma(cast<bf16>(o + 1.0f), W.load({0, 0}, {64, 64})));
});

constexpr auto columnSums = kernel("column_sums", [](Tensor<const f32, 2> X, Tensor<f32, 1> Y) {
  auto [c] = grid(Y, {64});
  Tile sum = zeros<f32>({64});
  for (Tile r : range(0, X.dim(0), 16))
    sum += sectile::sum(X.load({r, c}, {16, 64}), 0).drop(0);
  Y.store({c}, sum);
});
constexpr auto longRows = kernel("long_rows", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y) {
  auto [r] = grid(X, {1});
  Tile x = X.load({r, 0}, {1, 16384});
  Y.store({r, 0}, x - sum(x, 1));
});

} // namespace

SECTILE_CASE("P08a/choices/bf16") {
  for (std::int64_t K : {0, 1, 64, 200})
    productOver<bf16, 64, 64, 64>(run, 130, 200, K);
}
SECTILE_CASE("P08a/choices/warpgroups") {
  productOver<bf16, 128, 128, 64>(run, 257, 130, 0);
  productOver<e4m3, 128, 64, 64>(run, 257, 130, 0);
}
SECTILE_CASE("P08a/choices/types") {
  productOver<f32, 64, 64, 32>(run, 70, 66, 0);
  productOver<e5m2, 64, 64, 64>(run, 70, 66, 0);
  productOver<i8, 64, 64, 64>(run, 70, 66, 0);
  productOver<u8, 64, 64, 64>(run, 70, 66, 0);
}
SECTILE_CASE("P08a/groups") {
  constexpr std::int64_t G = 7, M = 100, N = 72, K = 192;
  const std::vector<i32> counts{0, 64, 0, 0, 192, 128, 0};
  Guarded<bf16> a(run, std::vector<bf16>(std::size_t(G * M * K), bf16(1.0f))), b(run, make<bf16>(G * K * N, [](auto i) { return i / (K * N) + 1; }));
  Guarded<i32> n(run, counts);
  Guarded<f32> c(run, G * M * N);
  auto launch = [&](const Config &config) {
    groups.with(config)(run.stream(), a.view(G, M, K), b.view(G, K, N), n.view(G), c.view(G, M, N));
  };
  auto verify = [&] {
    run.same(c.get(), make<f32>(G * M * N, [&](auto i) { return float(counts[std::size_t(i / (M * N))]) * float(i / (M * N) + 1); }), "C");
  };
  run.sweepPipelines({&c}, launch, verify, run.isGpu() ? 10 : 1);
  underEachChoice(run, {&c}, launch, verify);
}
SECTILE_CASE("P08a/chain") {
  Guarded<bf16> q(run, std::vector<bf16>(100 * 64, bf16(1.0f))), k(run, std::vector<bf16>(64 * 64, bf16(0.0f))), w(run, std::vector<bf16>(64 * 64, bf16(2.0f)));
  Guarded<f32> o(run, 100 * 64);
  for (std::int64_t keys : {0, 64}) {
    const Tensor<const bf16, 2> K(keys ? k.data() : nullptr, {keys, 64});
    auto launch = [&](const Config &config) { chain.with(config)(run.stream(), q.view(100, 64), K, w.view(64, 64), o.view(100, 64)); };
    auto verify = [&] { run.same(o.get(), std::vector<f32>(100 * 64, 128), fmt::format("{} keys", keys)); };
    run.sweepPipelines({&o}, launch, verify, run.isGpu() ? 10 : 1);
    underEachChoice(run, {&o}, launch, verify);
  }
}
SECTILE_CASE("P08b/kinds") { // no rows, no columns, no batch, no groups: at once, and nothing is written
  Guarded<bf16> a(run, std::vector<bf16>(64 * 64, bf16(1.0f)));
  Guarded<f32> x(run, std::vector<f32>(64 * 64, 1.0f)), y(run, 64 * 64);
  Guarded<i32> n(run, std::vector<i32>(4, 64));
  const std::vector<f32> untouched = y.get();
  for (int round = 0; round < 2; ++round) { // before and after ordinary launches
    product<bf16, 64, 64, 64>(run.stream(), a.view(0, 64), a.view(64, 64), y.view(0, 64));
    product<bf16, 64, 64, 64>(run.stream(), a.view(64, 64), a.view(64, 0), y.view(64, 0));
    product<bf16, 128, 128, 64>(run.stream(), a.view(0, 0), a.view(0, 0), y.view(0, 0));
    groups(run.stream(), a.view(0, 64, 64), a.view(0, 64, 64), n.view(0), y.view(0, 64, 64));
    groups(run.stream(), a.view(4, 0, 64), a.view(4, 64, 16), n.view(4), y.view(4, 0, 16));
    chain(run.stream(), a.view(0, 64), a.view(64, 64), a.view(64, 64), y.view(0, 64));
    columnSums(run.stream(), x.view(64, 0), y.view(0));
    longRows(run.stream(), x.view(0, 64), y.view(0, 64));
    auto prepared = product<bf16, 64, 64, 64>.prepare(a.view(0, 64), a.view(64, 64), y.view(0, 64));
    for (int i = 0; i < 3; ++i)
      prepared(run.stream());
    run.stream().synchronize();
    run.same(y.get(), untouched, "y");
    run.check(y.guardsHold(), "guards");
    columnSums(run.stream(), x.view(0, 64), y.view(64)); // sums of no rows
    run.stream().synchronize();
    run.same(y.get(), make<f32>(64 * 64, [&](auto i) { return i < 64 ? 0.0f : untouched[0]; }), "sums of nothing");
    product<bf16, 64, 64, 64>(run.stream(), a.view(64, 64), a.view(64, 64), y.view(64, 64));
    run.stream().synchronize();
    run.same(y.get(), std::vector<f32>(64 * 64, 64), "an ordinary launch");
    y.poison();
  }
}
