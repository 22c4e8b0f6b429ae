// SPDX-License-Identifier: Apache-2.0
/// \file Kernels that are measured and belong to no sample; the others come from the samples themselves.
#pragma once

#include "samples/02_softmax/kernels.h"

#include <sectile/sectile.h>

namespace bench {
using namespace sectile;
using sample::softmax;
using sample::softmaxLoop;

constexpr auto addBf16 = kernel(
    "vector_add_bf16", [](Tensor<const bf16, 1> X, Tensor<const bf16, 1> Y, Tensor<bf16, 1> Z, Config &cfg) {
      const int B = cfg.pick("B", {4096, 2048, 1024, 8192});
      auto [i] = grid(Z, {B});
      Z.store({i}, X.load({i}, {B}) + Y.load({i}, {B}));
    });

constexpr auto addF32 = kernel(
    "vector_add_f32", [](Tensor<const f32, 1> X, Tensor<const f32, 1> Y, Tensor<f32, 1> Z, Config &cfg) {
      const int B = cfg.pick("B", {1024, 2048, 4096, 512});
      auto [i] = grid(Z, {B});
      Z.store({i}, X.load({i}, {B}) + Y.load({i}, {B}));
    });

constexpr auto matmul =
    kernel("matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
      const int BM = cfg.pick("BM", {128, 64, 256, 16});
      const int BN = cfg.pick("BN", {128, 256, 64});
      const int BK = cfg.pick("BK", {32, 64, 128});
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(1), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
      C.store({m, n}, cast<bf16>(acc));
    });

/// As little as a kernel can do: two arguments, nothing written unless n is negative.
constexpr auto tiny = kernel("tiny", [](Tensor<f32, 1> X, Scalar<i32> n) {
  auto [i] = grid(X, {1024});
  when(n < 0, [&] { X.store({i}, zeros<f32>({1024})); });
});

} // namespace bench
