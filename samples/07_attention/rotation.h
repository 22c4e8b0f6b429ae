// SPDX-License-Identifier: Apache-2.0
/// \file Attention on operands of 8 bits whose queries and keys are turned by a random-sign Hadamard matrix
/// first.
///
/// With R = diag(signs) H / sqrt(D), R times its transpose is 1, so (q R) (k R)^T = q k^T: scores stay. A
/// number far above the others of its row is spread over the whole row, and rounding to 8 bits, which is
/// relative to each number, then costs the row less. Keys are turned where they are quantised; queries in the
/// attention kernel itself, as they are loaded.
#pragma once

#include "samples/07_attention/kernels.h"

#include <cmath>

namespace sample {

/// Entry (i, j) of H [n, n], n a power of two: 1 where i and j have an even number of bits in common, else
/// -1.
template <class T> Tile hadamard(int n) {
  Tile odd = cast<u32>(iota(n, 1)) & cast<u32>(iota(1, n));
  for (int shift = 8; shift > 0; shift /= 2)
    odd = odd ^ (odd >> shift);
  return select((odd & 1u) == 0u, full<T>({n, n}, 1.0f), full<T>({n, n}, -1.0f));
}

/// x R for rows of x, [rows, D] of bf16 or f16, and signs [1, D] of 1 and -1; [rows, D] of f32.
template <class T> Tile rotate(const Tile &x, const Tile &signs, int D) {
  return mma(x * signs, hadamard<T>(D), zeros<f32>({x.length(0), D})) *
         static_cast<float>(1 / std::sqrt(double(D)));
}

/// Y = X R / scale, rounded to 8 bits, for X [B, H, S, d] and scale [B, H]; Y [B, H, S, D] has as many
/// columns as `D`, the power of two from d on. signs: [D].
template <class T, class Eight = e4m3>
inline constexpr auto rotateAndQuantise = kernel("rotate_and_quantise", [](Tensor<const T, 4> X,
                                                                           Tensor<const T, 1> signs,
                                                                           Tensor<const f32, 2> scale,
                                                                           Tensor<Eight, 4> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64}), D = cfg.cover("D", Y, 3);
  auto [b, h, i] = grid(X, {1, 1, BM});
  Tile x = X.load({b, h, i, 0}, {1, 1, BM, D}).fill(0).drop(0, 1);
  Tile r = rotate<T>(x, reshape(signs.load({0}, {D}), {1, D}), D);
  Y.store({b, h, i, 0}, cast<Eight>(r * (1.0f / scale.at(b, h))));
});

/// Attention with keys [B, HK, Sk, D] and values [B, HK, Sk, dv] of 8 bits, and queries [B, H, Sq, d] that
/// are turned, divided by their scale and rounded to 8 bits as they are loaded. Keys were turned by the same
/// signs. Scales are [B, heads]; strides of 0 make them one for a whole tensor. Otherwise as `attention`.
template <class T, auto variant = Variant{}, Align align = Align::start, class Out = T, class Eight = e4m3>
inline constexpr auto rotatedAttention = variantKernel<variant>(
    "rotated_attention",
    [](Tensor<const T, 4> Q, Tensor<const Eight, 4> K, Tensor<const Eight, 4> V, Tensor<Out, 4> O,
       Tensor<f32, 3> Lse, Scalar<f32> scale, Tensor<const T, 1> signs, Tensor<const f32, 2> qScale,
       Tensor<const f32, 2> kScale, Tensor<const f32, 2> vScale, Config &cfg) {
      const Choices<Eight> c(cfg, cfg.cover("D", K, 3), cfg.cover("DV", V, 3));
      auto [b, h, i] = grid(Q, {1, 1, c.BM});
      Tile hk = h / (Q.dim(1) / K.dim(1)), first = i;
      if constexpr (align == Align::end)
        first = i + (K.dim(2) - Q.dim(2));
      At start{b, h, first, scalar<Index>(0)}, at{b, h, first + iota(c.BM, 1), start.k};
      Tile q = Q.load({b, h, i, 0}, {1, 1, c.BM, c.D}).fill(0).drop(0, 1), ofQueries = qScale.at(b, h);
      Tile turned = rotate<T>(q, reshape(signs.load({0}, {c.D}), {1, c.D}), c.D) * (1.0f / ofQueries);
      auto [o, lse] =
          attendRows<variant>(cast<Eight>(turned), start, at, first + (c.BM - 1), K, V,
                              scale * (ofQueries * kScale.at(b, hk)), b, hk, c.BN, c.D, c.DV, c.maximum);
      O.store({b, h, i, 0}, cast<Out>(o * vScale.at(b, hk)));
      Lse.store({b, h, i}, lse.drop(1));
    });

} // namespace sample
