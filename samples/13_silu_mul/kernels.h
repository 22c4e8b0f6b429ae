// SPDX-License-Identifier: Apache-2.0
/// \file The gate of a gated layer: y = silu(a) * b, where each row of X holds a and then b.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// X is rows x 2 N, Y rows x N.
inline constexpr auto siluMul =
    kernel("silu_mul", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
      const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
      const int BC = cfg.pick("BC", {2048, 1024, 4096});
      auto [r, c] = grid(Y, {BR, BC});
      Tile a = cast<f32>(X.load({r, c}, {BR, BC}));
      Tile b = cast<f32>(X.load({r, c + Y.dim(1)}, {BR, BC}));
      Y.store({r, c}, cast<bf16>(a * sigmoid(a) * b));
    });

} // namespace sample
