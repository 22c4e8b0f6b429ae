// SPDX-License-Identifier: Apache-2.0
/// \file Cross-entropy of rows of logits: loss = log(sum of exp(x)) - x[target].
#pragma once

#include <sectile/sectile.h>

#include <limits>

namespace sample {
using namespace sectile;

/// One tile covers whole rows.
inline constexpr auto crossEntropy =
    kernel("cross_entropy",
           [](Tensor<const bf16, 2> X, Tensor<const i64, 1> Target, Tensor<f32, 1> Loss, Config &cfg) {
             const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
             const int BC = cfg.cover("BC", X, 1);
             auto [r] = grid(X, {BR});
             Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
             Tile top = max(x, 1);
             Tile logOfSum = top + log(sum(exp(x - top), 1));
             Tile target = cast<Index>(Target.load({r}, {BR}));
             Loss.store({r}, logOfSum.drop(1) - cast<f32>(X.at(r + iota(BR), target)));
           });

/// Rows of any length: maximum and sum are corrected from piece to piece.
inline constexpr auto crossEntropyLoop =
    kernel("cross_entropy_loop",
           [](Tensor<const bf16, 2> X, Tensor<const i64, 1> Target, Tensor<f32, 1> Loss, Config &cfg) {
             const int BC = cfg.pick("BC", {8192, 512, 4096, 16384, 32768});
             auto [r] = grid(X, {1});
             Tile top = full<f32>({1, 1}, -std::numeric_limits<float>::infinity());
             Tile total = zeros<f32>({1, 1});
             for (Tile c : range(0, X.dim(1), BC)) {
               Tile x = cast<f32>(X.load({r, c}, {1, BC}));
               Tile next = max(top, max(x, 1));
               total = total * exp(top - next) + sum(exp(x - next), 1);
               top = next;
             }
             Tile target = cast<Index>(Target.load({r}, {1}));
             Loss.store({r}, (top + log(total)).drop(1) - cast<f32>(X.at(r, target)));
           });

} // namespace sample
