// SPDX-License-Identifier: Apache-2.0
/// \file Kernels that graphs are made of in tests, and random graphs of them.
#pragma once

#include <sectile/Graph.h>
#include <sectile/sectile.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace sectile::test {

// Nodes of unlike preferences: none has the tiles of another as its first choice.

/// z = a x + y.
template <class T>
inline constexpr auto axpyOf = kernel("axpy", [](Tensor<const T, 2> X, Tensor<const T, 2> Y, Scalar<float> a, Tensor<T, 2> Z, Config &cfg) {
  const int BM = cfg.pick("BM", {8, 16, 32}), BN = cfg.pick("BN", {64, 32});
  auto [m, n] = grid(Z, {BM, BN});
  Tile x = cast<f32>(X.load({m, n}, {BM, BN})), y = cast<f32>(Y.load({m, n}, {BM, BN}));
  Z.store({m, n}, cast<T>(x * a + y));
});

/// y = max(x + b, 0), with b along rows.
template <class T>
inline constexpr auto biasReluOf = kernel("bias_relu", [](Tensor<const T, 2> X, Tensor<const T, 1> B, Tensor<T, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {32, 16}), BC = cfg.pick("BC", {32, 64});
  auto [r, c] = grid(X, {BR, BC});
  Tile x = cast<f32>(X.load({r, c}, {BR, BC}));
  Y.store({r, c}, cast<T>(max(x + reshape(cast<f32>(B.load({c}, {BC})), {1, BC}), 0.0f)));
});

/// Another element type.
template <class From, class To>
inline constexpr auto castOf = kernel("cast", [](Tensor<const From, 2> X, Tensor<To, 2> Y, Config &cfg) {
  const int H = cfg.pick("H", {16, 32}), W = cfg.pick("W", {64, 32});
  auto [i, j] = grid(Y, {H, W});
  Y.store({i, j}, cast<To>(X.load({i, j}, {H, W})));
});

/// Both x + y and x - y.
inline constexpr auto butterfly = kernel("butterfly", [](Tensor<const f32, 2> X, Tensor<const f32, 2> Y, Tensor<f32, 2> S, Tensor<f32, 2> D, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32}), BN = cfg.pick("BN", {32, 64});
  auto [m, n] = grid(S, {BM, BN});
  Tile x = X.load({m, n}, {BM, BN}), y = Y.load({m, n}, {BM, BN});
  S.store({m, n}, x + y);
  D.store({m, n}, x - y);
});

template <class Out>
inline constexpr auto multiplyOf = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<Out, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32}), BN = cfg.pick("BN", {32, 64}), BK = cfg.pick("BK", {16, 32});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<Out>(acc));
});
inline constexpr const auto &multiply = multiplyOf<bf16>;

/// x s with a number per row: what a product's loop may do as it loads.
inline constexpr auto scaleRows = kernel("scale_rows", [](Tensor<const bf16, 2> X, Tensor<const f32, 2> S, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {8, 16, 32}), BC = cfg.pick("BC", {64, 32, 16});
  auto [r, c] = grid(Y, {BR, BC});
  Y.store({r, c}, cast<bf16>(cast<f32>(X.load({r, c}, {BR, BC})) * S.load({r, 0}, {BR, 1})));
});
/// w s with a number per column, of 8 bits.
inline constexpr auto widen = kernel("widen", [](Tensor<const e4m3, 2> W, Tensor<const f32, 1> S, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {64, 16, 32}), BC = cfg.pick("BC", {32, 64});
  auto [r, c] = grid(W, {BR, BC});
  Y.store({r, c}, cast<bf16>(cast<f32>(W.load({r, c}, {BR, BC})) * reshape(S.load({c}, {BC}), {1, BC})));
});
/// Rows of a table, with zeros for rows that it does not have.
inline constexpr auto takeRows = kernel("take_rows", [](Tensor<const bf16, 2> Table, Tensor<const i32, 1> Rows, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {8, 16, 32}), BC = cfg.pick("BC", {64, 16, 32});
  auto [r, c] = grid(Y, {BR, BC});
  Tile row = cast<Index>(reshape(Rows.load({r}, {BR}), {BR, 1}));
  Y.store({r, c}, Table.at(row, c + iota(1, BC)).fill(0));
});
/// Per row the logarithm of the sum of exponentials, piece by piece.
inline constexpr auto logSums = kernel("log_sums", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {64, 16, 32}), BC = cfg.pick("BC", {128, 32, 64});
  auto [r] = grid(X, {BR});
  Tile total = zeros<f32>({BR, 1});
  for (Tile c : range(0, X.dim(1), BC))
    total = total + sum(exp(X.load({r, c}, {BR, BC})), 1);
  Y.store({r, 0}, log(total));
});

/// b ? x * n : x, with a number that is part of the key.
inline constexpr auto times = kernel("times", [](Const<bool> b, Tensor<const f32, 2> X, Scalar<float> n, Tensor<f32, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {64, 16}), BN = cfg.pick("BN", {16, 32});
  auto [i, j] = grid(Y, {BM, BN});
  Tile x = X.load({i, j}, {BM, BN});
  if (b)
    x = x * n;
  Y.store({i, j}, x);
});

/// -x in tiles of one shape.
inline constexpr auto negate = kernel("negate", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y) {
  auto [m, n] = grid(Y, {32, 64});
  Y.store({m, n}, -X.load({m, n}, {32, 64}));
});

/// Rows: y = x - max(x), with a row per program.
inline constexpr auto center = kernel("center", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {4, 8}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = X.load({r, 0}, {BR, BC});
  Y.store({r, 0}, x - max(x, 1));
});
/// x + 1 of rows, without a tile that depends on their length.
inline constexpr auto lift = kernel("lift", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {4}), BC = cfg.pick("BC", {1024, 128, 16, 512});
  auto [r] = grid(X, {BR});
  Y.store({r, 0}, X.load({r, 0}, {BR, BC}) + 1.0f);
});
/// And sums of them.
inline constexpr auto rowSums = kernel("row_sums", [](Tensor<const f32, 2> X, Tensor<f32, 2> S, Config &cfg) {
  const int BR = cfg.pick("BR", {8, 4}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  S.store({r, 0}, sum(X.load({r, 0}, {BR, BC}), 1));
});
/// The same the other way round.
inline constexpr auto turn = kernel("turn", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16, 32});
  auto [i, j] = grid(Y, {B, B});
  Y.store({i, j}, X.load({j, i}, {B, B}).t());
});

/// x beginning one column to the right.
inline constexpr auto moved = kernel("moved", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32}), BN = cfg.pick("BN", {32, 64});
  auto [m, n] = grid(Y, {BM, BN});
  Y.store({m, n}, X.load({m, n + 1}, {BM, BN}));
});

/// A tensor in host memory.
template <class T> struct Memory {
  std::vector<std::int64_t> dims;
  std::vector<T> data;
  Memory(std::vector<std::int64_t> d, unsigned seed = 0) : dims(std::move(d)) {
    std::size_t n = 1;
    for (auto length : dims)
      n *= static_cast<std::size_t>(length);
    std::mt19937 gen(seed);
    for (std::size_t i = 0; i < n; ++i)
      data.push_back(T(static_cast<float>(static_cast<int>(gen() % 17) - 8) * 0.25f));
  }
  template <int R> Tensor<T, R> view() {
    std::array<std::int64_t, R> lengths;
    std::copy(dims.begin(), dims.end(), lengths.begin());
    return Tensor<T, R>(data.data(), lengths);
  }
  void clear() { std::memset(static_cast<void *>(data.data()), 0xC3, data.size() * sizeof(T)); }
  bool operator==(const Memory &o) const { return !std::memcmp(data.data(), o.data.data(), data.size() * sizeof(T)); }
};

struct OnHost {
  template <int R, class T> Tensor<T, R> view(Memory<T> &memory) { return memory.template view<R>(); }
};

/// A random graph over tensors of one shape; everything that nobody reads goes to memory.
class RandomChain {
public:
  explicit RandomChain(unsigned seed) : gen(seed) {
    static constexpr int lengths[] = {1, 16, 33, 64, 70};
    m = lengths[gen() % 5];
    n = lengths[gen() % 5];
    for (int i = 0; i < 2; ++i) {
      halves.emplace_back(std::vector<std::int64_t>{m, n}, seed + i);
      floats.emplace_back(std::vector<std::int64_t>{m, n}, seed + 10 + i);
    }
    bias = Memory<bf16>({n}, seed + 20);
    left = Memory<bf16>({m, 40}, seed + 21);
    right = Memory<bf16>({40, n}, seed + 22);
    other = Memory<bf16>({40, n}, seed + 23);
    eight = Memory<e4m3>({40, n}, seed + 24);
    scales = Memory<f32>({n}, seed + 25);
    rows = Memory<f32>({m, 1}, seed + 26);
    const int nodes = 2 + static_cast<int>(gen() % 5);
    for (int i = 0; i < nodes; ++i)
      script.push_back({number(), number(), number()});
  }

  struct Result {
    std::vector<Memory<bf16>> halves;
    std::vector<Memory<f32>> floats;
    bool operator==(const Result &) const = default;
  };

  /// `run(graph, state)` runs what has been recorded, on memory that `place` gives for that of the host.
  template <class F> Result run(F &&run) {
    OnHost place;
    return runOn(place, run);
  }
  template <class Place, class F> Result runOn(Place &place, F &&run) {
    Result result;
    Graph g("random");
    std::vector<GraphTensor<const bf16, 2>> h;
    std::vector<GraphTensor<const f32, 2>> f;
    std::vector<GraphTensor<bf16, 2>> newHalves;
    std::vector<GraphTensor<f32, 2>> newFloats;
    for (auto &memory : halves)
      h.push_back(g.input(place.template view<2>(memory)));
    for (auto &memory : floats)
      f.push_back(g.input(place.template view<2>(memory)));
    auto addHalf = [&](GraphTensor<bf16, 2> x) { h.push_back(x), newHalves.push_back(x); };
    auto addFloat = [&](GraphTensor<f32, 2> x) { f.push_back(x), newFloats.push_back(x); };
    auto b = g.input(place.template view<1>(bias));
    auto l = g.input(place.template view<2>(left)), r = g.input(place.template view<2>(right)), o = g.input(place.template view<2>(other));
    auto w = g.input(place.template view<2>(eight));
    auto s = g.input(place.template view<1>(scales));
    auto per = g.input(place.template view<2>(rows));
    GraphTensor<const bf16, 2> scaled = l;
    if (std::any_of(script.begin(), script.end(), [](const auto &step) { return step[0] % 12 == 10; }))
      scaled = scaleRows(l, per);
    // Chains: mostly what was made last.
    auto any = [](auto &list, std::uint32_t number) { return list[number % 3 ? list.size() - 1 : number / 3 % list.size()]; };
    for (auto [what, x, y] : script)
      switch (what % 12) {
      case 0:
        addHalf(axpyOf<bf16>(any(h, x), any(h, y), 0.5f));
        break;
      case 1:
        addFloat(axpyOf<f32>(any(f, x), any(f, y), -1));
        break;
      case 2:
        addHalf(biasReluOf<bf16>(any(h, x), b));
        break;
      case 3:
        addHalf(castOf<f32, bf16>(any(f, x)));
        break;
      case 4:
        addFloat(castOf<bf16, f32>(any(h, x)));
        break;
      case 5: {
        auto [plus, minus] = butterfly(any(f, x), any(f, y));
        addFloat(plus);
        addFloat(minus);
        break;
      }
      case 6:
        addHalf(multiply(l, r));
        break;
      case 7: // computed in the loop of the product
        addHalf(multiply(scaleRows(l, per), r));
        break;
      case 8:
        addHalf(multiply(l, widen(w, s)));
        break;
      case 9: // tiles that two products load
        addHalf(multiply(l, r));
        addHalf(multiply(l, o));
        break;
      case 10: // and are computed
        addHalf(multiply(scaled, r));
        addHalf(multiply(scaled, o));
        break;
      default:
        addFloat(center(any(f, x)));
        break;
      }
    // Some results stay between nodes; the last ones always go to memory.
    result.halves.reserve(newHalves.size());
    result.floats.reserve(newFloats.size());
    auto give = [&](auto &values, auto &memories) {
      for (std::size_t i = 0; i < values.size(); ++i)
        if (i + 1 == values.size() || i % 3 == 2) {
          memories.emplace_back(std::vector<std::int64_t>{m, n});
          memories.back().clear();
          g.output(values[i], place.template view<2>(memories.back()));
        }
    };
    give(newHalves, result.halves);
    give(newFloats, result.floats);
    run(g, *b.asInput({}).graph);
    return result;
  }

private:
  std::uint32_t number() { return static_cast<std::uint32_t>(gen()); }
  std::mt19937 gen;
  std::int64_t m, n;
  std::vector<Memory<bf16>> halves;
  std::vector<Memory<f32>> floats;
  Memory<bf16> bias{{1}}, left{{1}}, right{{1}}, other{{1}};
  Memory<e4m3> eight{{1}};
  Memory<f32> scales{{1}}, rows{{1}};
  std::vector<std::array<std::uint32_t, 3>> script;
};

} // namespace sectile::test
