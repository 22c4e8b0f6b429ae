// SPDX-License-Identifier: Apache-2.0
/// \file RMSNorm over rows, alone and behind the addition of a residual.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// x / sqrt(mean of squares + eps) * w: shared by both kernels, a function on tiles.
inline Tile rmsNormOf(Tile x, Tile length, Tile w, Tile eps) {
  return x * rsqrt(sum(x * x, 1) / length + eps) * w;
}

inline constexpr auto rmsNorm = kernel("rms_norm", [](Tensor<const bf16, 2> X, Tensor<const bf16, 1> W,
                                                      Tensor<bf16, 2> Y, Scalar<f32> eps, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
  Tile w = cast<f32>(reshape(W.load({0}, {BC}), {1, BC}));
  Y.store({r, 0}, cast<bf16>(rmsNormOf(x, cast<f32>(X.dim(1)), w, eps)));
});

/// s = x + r rounded to bf16, y = RMSNorm(s) * w; both are written.
inline constexpr auto addRmsNorm =
    kernel("add_rms_norm", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> R, Tensor<const bf16, 1> W,
                              Tensor<bf16, 2> S, Tensor<bf16, 2> Y, Scalar<f32> eps, Config &cfg) {
      const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
      const int BC = cfg.cover("BC", X, 1);
      auto [r] = grid(X, {BR});
      Tile s = X.load({r, 0}, {BR, BC}) + R.load({r, 0}, {BR, BC});
      S.store({r, 0}, s);
      Tile w = cast<f32>(reshape(W.load({0}, {BC}), {1, BC}));
      Y.store({r, 0}, cast<bf16>(rmsNormOf(cast<f32>(s), cast<f32>(X.dim(1)), w, eps)));
    });

} // namespace sample
