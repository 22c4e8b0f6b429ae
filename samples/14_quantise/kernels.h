// SPDX-License-Identifier: Apache-2.0
/// \file Quantising to fp8 (e4m3): values divided by a scale that brings the largest of a group to 448.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

inline constexpr float e4m3Max = 448;

/// A scale per row.
inline constexpr auto quantiseRows =
    kernel("quantise_rows", [](Tensor<const bf16, 2> X, Tensor<e4m3, 2> Q, Tensor<f32, 1> S, Config &cfg) {
      const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
      const int BC = cfg.cover("BC", X, 1);
      auto [r] = grid(X, {BR});
      Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
      Tile largest = max(max(abs(x), 1), 1e-12f); // rows of zeros have a scale, too
      Q.store({r, 0}, cast<e4m3>(x * (e4m3Max / largest)));
      S.store({r}, (largest / e4m3Max).drop(1));
    });

/// A scale per `block` columns of a row; S is rows x columns / block, rounded up.
inline constexpr auto quantiseBlocks =
    kernel("quantise_blocks",
           [](Tensor<const bf16, 2> X, Tensor<e4m3, 2> Q, Tensor<f32, 2> S, Const<i32> block, Config &cfg) {
             const int BR = cfg.pick("BR", {16, 8, 32, 64});
             auto [r, c] = grid(X, {BR, block});
             Tile x = cast<f32>(X.load({r, c}, {BR, block}));
             Tile largest = max(max(abs(x), 1), 1e-12f);
             Q.store({r, c}, cast<e4m3>(x * (e4m3Max / largest)));
             S.store({r, c / block.value}, largest / e4m3Max);
           });

} // namespace sample
