// SPDX-License-Identifier: Apache-2.0
/// \file A product for each member of a batch.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// C[z] = A[z] B[z] with sums in f32. How the members lie in memory is a matter of strides: one after the
/// other, between each other as the heads of a layer do, or one for all with stride 0.
template <class T>
inline constexpr auto batchedMatmul = kernel("batched_matmul", [](Tensor<const T, 3> A, Tensor<const T, 3> B,
                                                                  Tensor<T, 3> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256, 16});
  const int BN = cfg.pick("BN", {128, 256, 64, 32});
  const int BK = cfg.pick("BK", {64, 32, 128});
  auto [z, m, n] = grid(C, {1, BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(2), BK)) {
    Tile a = A.load({z, m, k}, {1, BM, BK}).drop(0);
    Tile b = B.load({z, k, n}, {1, BK, BN}).drop(0);
    acc = mma(a, b, acc);
  }
  C.store({z, m, n}, cast<T>(acc));
});

} // namespace sample
