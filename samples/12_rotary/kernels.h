// SPDX-License-Identifier: Apache-2.0
/// \file Rotary position embedding: the halves a and b of each head become (a cos - b sin, b cos + a sin).
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// X and Y are positions x heads x 2 D, Cos and Sin positions x D.
inline constexpr auto rotary = kernel("rotary", [](Tensor<const bf16, 3> X, Tensor<const f32, 2> Cos,
                                                   Tensor<const f32, 2> Sin, Tensor<bf16, 3> Y, Config &cfg) {
  const int BT = cfg.pick("BT", {1, 2, 4});
  const int BH = cfg.pick("BH", {8, 4, 16, 32});
  const int D = cfg.cover("D", Cos, 1);
  auto [t, h] = grid(X, {BT, BH});
  Tile d = Cos.dim(1);
  Tile cos = reshape(Cos.load({t, 0}, {BT, D}), {BT, 1, D});
  Tile sin = reshape(Sin.load({t, 0}, {BT, D}), {BT, 1, D});
  Tile a = cast<f32>(X.load({t, h, 0}, {BT, BH, D}));
  Tile b = cast<f32>(X.load({t, h, d}, {BT, BH, D}));
  Y.store({t, h, 0}, cast<bf16>(a * cos - b * sin));
  Y.store({t, h, d}, cast<bf16>(b * cos + a * sin));
});

} // namespace sample
