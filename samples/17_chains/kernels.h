// SPDX-License-Identifier: Apache-2.0
/// \file What stands before, between and behind the products of a model: small kernels that know nothing of each other.
#pragma once

#include <sectile/sectile.h>

#include <limits>

namespace sample {
using namespace sectile;

/// S = 1 / sqrt(mean of squares + eps) per row, [rows, 1].
inline constexpr auto rmsOfRows = kernel("rms_of_rows", [](Tensor<const bf16, 2> X, Tensor<f32, 2> S, Scalar<f32> eps, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
  S.store({r, 0}, rsqrt(sum(x * x, 1) / cast<f32>(X.dim(1)) + eps));
});

/// y = x s w, with s per row and w per column.
inline constexpr auto normalise = kernel("normalise", [](Tensor<const bf16, 2> X, Tensor<const f32, 2> S, Tensor<const bf16, 1> W, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {16, 64, 128, 256}), BC = cfg.pick("BC", {256, 128, 64, 32});
  auto [r, c] = grid(Y, {BR, BC});
  Tile x = cast<f32>(X.load({r, c}, {BR, BC})), w = cast<f32>(reshape(W.load({c}, {BC}), {1, BC}));
  Y.store({r, c}, cast<bf16>(x * S.load({r, 0}, {BR, 1}) * w));
});

/// Rotary position embedding of heads side by side: the halves a and b of each become (a cos - b sin, b cos + a sin). Cos and Sin
/// are positions x width, the same in both halves. (-b, a) is a product with a matrix of 1, -1 and 0, which is exact.
inline constexpr auto rotaryHeads = kernel("rotary_heads", [](Tensor<const bf16, 2> X, Tensor<const f32, 2> Cos, Tensor<const f32, 2> Sin,
                                                              Tensor<bf16, 2> Y, Const<i32> width, Config &cfg) {
  const int BM = cfg.pick("BM", {64, 128, 256, 16}), D = width;
  auto [m, n] = grid(Y, {BM, D});
  Tile x = X.load({m, n}, {BM, D}), from = iota(D, 1), to = iota(1, D);
  Tile one = full<bf16>({D, D}, 1.0f), none = full<bf16>({D, D}, 0.0f);
  Tile turn = select(from == to + D / 2, -one, select(from + D / 2 == to, one, none));
  Tile turned = mma(x, turn, zeros<f32>({BM, D}));
  // Filled: the result ends where x does, whatever the tables hold.
  Y.store({m, n}, cast<bf16>(cast<f32>(x) * Cos.load({m, 0}, {BM, D}).fill(0) + turned * Sin.load({m, 0}, {BM, D}).fill(0)));
});

/// silu(gate) up.
inline constexpr auto siluTimes = kernel("silu_times", [](Tensor<const bf16, 2> Gate, Tensor<const bf16, 2> Up, Tensor<bf16, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64, 128, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile gate = cast<f32>(Gate.load({m, n}, {BM, BN}));
  Y.store({m, n}, cast<bf16>(gate * sigmoid(gate) * cast<f32>(Up.load({m, n}, {BM, BN}))));
});

/// x / scale in 8 bits, with one scale in device memory.
inline constexpr auto quantise = kernel("quantise", [](Tensor<const bf16, 2> X, Tensor<const f32, 1> Scale, Tensor<e4m3, 2> Q, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64, 128, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Q, {BM, BN});
  Q.store({m, n}, cast<e4m3>(cast<f32>(X.load({m, n}, {BM, BN})) / Scale.load({0}, {1}).drop(0)));
});

/// Bits that look random, of the number of an element: a host computes the same.
template <class T> T mixed(T x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}
/// x / (1 - p) where the bits of (seed, row, column) are at least p, else 0; `p` in units of 2^-32.
inline constexpr auto dropout = kernel("dropout", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Scalar<u32> seed, Scalar<u32> p, Scalar<f32> scale, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64, 128, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile number = cast<u32>(m + iota(BM, 1)) * cast<u32>(Y.dim(1)) + cast<u32>(n + iota(1, BN));
  Tile x = cast<f32>(X.load({m, n}, {BM, BN}));
  Y.store({m, n}, cast<bf16>(select(mixed(Tile(number ^ seed)) >= p, x * scale, 0.0f)));
});

/// Rows of a table; zeros for numbers that it does not have.
inline constexpr auto embed = kernel("embed", [](Tensor<const i32, 1> Ids, Tensor<const bf16, 2> Table, Tensor<bf16, 2> Y, Config &cfg) {
  const int BC = cfg.cover("BC", Y, 1);
  auto [t] = grid(Ids, {1});
  Y.store({t, 0}, Table.load({cast<Index>(Ids.at(t)), 0}, {1, BC}).fill(0));
});
/// x + y of rows.
inline constexpr auto addRows = kernel("add_rows", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> Y, Tensor<bf16, 2> Z, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Z.store({r, 0}, cast<bf16>(cast<f32>(X.load({r, 0}, {BR, BC})) + cast<f32>(Y.load({r, 0}, {BR, BC}))));
});

/// Cross-entropy of rows of logits, piece by piece; the target's logit is found on the way.
inline constexpr auto lossOfRows = kernel("loss_of_rows", [](Tensor<const f32, 2> X, Tensor<const i32, 2> Target, Tensor<f32, 2> Loss, Config &cfg) {
  const int BR = cfg.pick("BR", {64, 128, 16, 256}), BC = cfg.pick("BC", {256, 128, 64, 32});
  auto [r] = grid(X, {BR});
  Tile top = full<f32>({BR, 1}, -std::numeric_limits<float>::infinity()), total = zeros<f32>({BR, 1}), own = zeros<f32>({BR, 1});
  Tile target = cast<Index>(Target.load({r, 0}, {BR, 1}));
  for (Tile c : range(0, X.dim(1), BC)) {
    Tile x = X.load({r, c}, {BR, BC}), next = max(top, max(x, 1));
    total = total * exp(top - next) + sum(exp(x - next), 1);
    own = own + sum(select(c + iota(1, BC) == target, x, 0.0f), 1);
    top = next;
  }
  Loss.store({r, 0}, top + log(total) - own);
});

} // namespace sample
