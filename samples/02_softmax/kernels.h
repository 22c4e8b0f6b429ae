// SPDX-License-Identifier: Apache-2.0
/// \file Softmax over rows: y = exp(x - max x) / sum over each row.
#pragma once

#include <sectile/sectile.h>

#include <limits>

namespace sample {
using namespace sectile;

/// One tile covers whole rows: lanes past the end of a row do not exist, so reductions need no masks.
inline constexpr auto softmax =
    kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
      const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
      const int BC = cfg.cover("BC", X, 1);
      auto [r] = grid(X, {BR});
      Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
      Tile e = exp(x - max(x, 1));
      Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
    });

/// Rows of any length: one loop for the maximum and the sum, one for the result.
inline constexpr auto softmaxLoop =
    kernel("softmax_loop", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
      const int BC = cfg.pick("BC", {4096, 512, 2048, 8192, 16384});
      auto [r] = grid(X, {1});
      Tile top = full<f32>({1, 1}, -std::numeric_limits<float>::infinity());
      Tile total = zeros<f32>({1, 1});
      for (Tile c : range(0, X.dim(1), BC)) {
        Tile x = cast<f32>(X.load({r, c}, {1, BC}));
        Tile next = max(top, max(x, 1));
        total = total * exp(top - next) + sum(exp(x - next), 1);
        top = next;
      }
      for (Tile c : range(0, X.dim(1), BC)) {
        Tile x = cast<f32>(X.load({r, c}, {1, BC}));
        Y.store({r, c}, cast<bf16>(exp(x - top) / total));
      }
    });

} // namespace sample
