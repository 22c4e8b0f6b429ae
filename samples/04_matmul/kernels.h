// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products for the operand types and majors that users meet.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// C = A B with sums in f32. `TA`: A is stored [K, M]; `TB`: B is stored [N, K], as the weights of a linear
/// layer are. The order of each list is the search order, its first number the default.
template <class T, bool TA = false, bool TB = false, MmaPolicy policy = MmaPolicy::exact>
inline constexpr auto matmulOf = kernel("matmul", [](Tensor<const T, 2> A, Tensor<const T, 2> B,
                                                     Tensor<T, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256, 16});
  const int BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  const int BK = cfg.pick("BK", {64, 32, 128, 256});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(TA ? 0 : 1), BK)) {
    Tile a = TA ? A.load({k, m}, {BK, BM}).t() : A.load({m, k}, {BM, BK});
    Tile b = TB ? B.load({n, k}, {BN, BK}).t() : B.load({k, n}, {BK, BN});
    acc = mma(a, b, acc, policy);
  }
  C.store({m, n}, cast<T>(acc));
});

} // namespace sample
