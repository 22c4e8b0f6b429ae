// SPDX-License-Identifier: Apache-2.0
/// \file Sums of the rows and of the columns of a matrix, in f32.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// One tile covers whole rows.
inline constexpr auto rowSum = kernel("row_sum", [](Tensor<const bf16, 2> X, Tensor<f32, 1> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Y.store({r}, sum(cast<f32>(X.load({r, 0}, {BR, BC})), 1).drop(1));
});

/// Rows of any length: a sum in each lane, added up once at the end.
inline constexpr auto rowSumLoop =
    kernel("row_sum_loop", [](Tensor<const bf16, 2> X, Tensor<f32, 1> Y, Config &cfg) {
      const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
      const int BC = cfg.pick("BC", {4096, 1024, 2048, 8192});
      auto [r] = grid(X, {BR});
      Tile total = zeros<f32>({BR, BC});
      for (Tile c : range(0, X.dim(1), BC))
        total += cast<f32>(X.load({r, c}, {BR, BC}).fill(0));
      Y.store({r}, sum(total, 1).drop(1));
    });

/// A program adds up a strip of columns.
inline constexpr auto colSum = kernel("col_sum", [](Tensor<const bf16, 2> X, Tensor<f32, 1> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {16, 8, 32, 64});
  const int BC = cfg.pick("BC", {128, 64, 256});
  auto [c] = grid(Y, {BC});
  Tile total = zeros<f32>({BR, BC});
  for (Tile r : range(0, X.dim(0), BR))
    total += cast<f32>(X.load({r, c}, {BR, BC}).fill(0));
  Y.store({c}, sum(total, 0).drop(0));
});

} // namespace sample
