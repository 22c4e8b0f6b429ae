// SPDX-License-Identifier: Apache-2.0
/// \file What an encoder of the BERT family is made of beside its products and its attention.
#pragma once

#include "samples/04_matmul/kernels.h"
#include "samples/07_attention/kernels.h"

namespace sample {

/// (x - mean) / sqrt(variance + eps) * w + b along rows of `length` elements: a function on tiles.
inline Tile normalised(const Tile &x, const Tile &length, const Tile &w, const Tile &b, const Tile &eps) {
  Tile d = x - sum(x, 1) / length;
  return d * rsqrt(sum(d * d, 1) / length + eps) * w + b;
}
/// A vector as the one row of a tile of f32.
template <class T> Tile rowOf(const Tensor<const T, 1> &x, int width) {
  return cast<f32>(reshape(x.load({0}, {width}), {1, width}));
}

/// The first layer: the rows of three tables, by the token, by its place and for the first kind of sentence, added and
/// normalised. A program makes one row.
template <class T>
inline constexpr auto embed = kernel("embed", [](Tensor<const i32, 2> Ids, Tensor<const T, 2> Words, Tensor<const T, 2> Places,
                                                 Tensor<const T, 2> Kinds, Tensor<const T, 1> W, Tensor<const T, 1> B, Tensor<T, 3> Y,
                                                 Scalar<f32> eps, Config &cfg) {
  const int BC = cfg.cover("BC", Words, 1);
  auto [b, s] = grid(Ids, {1, 1});
  Tile id = cast<Index>(Ids.at(b, s));
  Tile x = cast<f32>(Words.load({id, 0}, {1, BC})) + cast<f32>(Places.load({s, 0}, {1, BC})) + cast<f32>(Kinds.load({0, 0}, {1, BC}));
  Y.store({b, s, 0}, cast<T>(normalised(x, cast<f32>(Words.dim(1)), rowOf(W, BC), rowOf(B, BC), eps)));
});

template <class T>
inline constexpr auto layerNormOf = kernel("layer_norm", [](Tensor<const T, 2> X, Tensor<const T, 1> W, Tensor<const T, 1> B,
                                                            Tensor<T, 2> Y, Scalar<f32> eps, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
  Y.store({r, 0}, cast<T>(normalised(x, cast<f32>(X.dim(1)), rowOf(W, BC), rowOf(B, BC), eps)));
});

/// What follows a product. The lists of tiles are those of products, so that each can run in the programs of one.
template <class T>
inline constexpr auto addBias = kernel("bias", [](Tensor<const T, 2> X, Tensor<const T, 1> Bias, Tensor<T, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32, 64, 128, 256}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile bias = reshape(cast<f32>(Bias.load({n}, {BN})), {1, BN});
  Y.store({m, n}, cast<T>(cast<f32>(X.load({m, n}, {BM, BN})) + bias));
});

/// gelu(x + bias), with the error function.
template <class T>
inline constexpr auto addBiasErfGelu = kernel("bias_gelu", [](Tensor<const T, 2> X, Tensor<const T, 1> Bias, Tensor<T, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32, 64, 128, 256}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile x = cast<f32>(X.load({m, n}, {BM, BN})) + reshape(cast<f32>(Bias.load({n}, {BN})), {1, BN});
  Y.store({m, n}, cast<T>(0.5f * x * (1.0f + erf(x * 0.70710678118654752f))));
});

/// r + x + bias.
template <class T>
inline constexpr auto addBiasTo = kernel("bias_residual", [](Tensor<const T, 2> X, Tensor<const T, 1> Bias, Tensor<const T, 2> R,
                                                             Tensor<T, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32, 64, 128, 256}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile bias = reshape(cast<f32>(Bias.load({n}, {BN})), {1, BN});
  Y.store({m, n}, cast<T>(cast<f32>(R.load({m, n}, {BM, BN})) + cast<f32>(X.load({m, n}, {BM, BN})) + bias));
});

/// Attention that sees the keys of a sentence and not what fills it up to the length of the longest.
inline constexpr Variant upToLength{.mask = [](At a, Tensor<const i32, 1> lengths) { return a.k < cast<Index>(lengths.at(a.b)); },
                                    .reach = [](At first, Tile, Tile keys, Tensor<const i32, 1> lengths) {
                                      return Keys{scalar<Index>(0), min(keys, cast<Index>(lengths.at(first.b)))};
                                    }};

/// The mean of a sentence's rows, divided by its length as a vector.
template <class T>
inline constexpr auto meanPool = kernel("mean_pool", [](Tensor<const T, 3> X, Tensor<const i32, 1> Lengths, Tensor<f32, 2> E, Config &cfg) {
  const int BS = cfg.pick("BS", {16, 8, 32}), BC = cfg.cover("BC", X, 2);
  auto [b] = grid(X, {1});
  Tile n = cast<Index>(Lengths.at(b)), total = zeros<f32>({1, BC});
  for (Tile s : range(0, n, BS))
    total += sum(keep(s + iota(BS, 1) < n, cast<f32>(X.load({b, s, 0}, {1, BS, BC}).drop(0))).fill(0), 0);
  Tile mean = total / cast<f32>(n);
  E.store({b, 0}, mean / max(sqrt(sum(mean * mean, 1)), 1e-12f));
});

} // namespace sample
