// SPDX-License-Identifier: Apache-2.0
/// \file A product with the picks that tuners are tried on.
#pragma once

#include <sectile/sectile.h>

namespace sectile::test {

/// C = A B with f32 sums; 45 combinations of tiles.
template <class T>
inline constexpr auto tunedMatmul = kernel("matmul", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<T, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  const int BK = cfg.pick("BK", {64, 32, 128});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<T>(acc));
});

} // namespace sectile::test
