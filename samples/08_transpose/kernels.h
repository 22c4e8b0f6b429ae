// SPDX-License-Identifier: Apache-2.0
/// \file Moving data: a copy, and the transpose of a matrix.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// y = x.
inline constexpr auto copy = kernel("copy", [](Tensor<const bf16, 1> X, Tensor<bf16, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {4096, 1024, 2048, 8192, 16384});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}));
});

/// y[j, i] = x[i, j].
inline constexpr auto transpose =
    kernel("transpose", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
      const int BR = cfg.pick("BR", {64, 32, 128});
      const int BC = cfg.pick("BC", {64, 32, 128});
      auto [r, c] = grid(X, {BR, BC});
      Y.store({c, r}, X.load({r, c}, {BR, BC}).t());
    });

} // namespace sample
