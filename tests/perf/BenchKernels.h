// SPDX-License-Identifier: Apache-2.0
/// \file The kernels that are measured; each source file that includes this has its own.
#pragma once

#include <sectile/sectile.h>

#include <limits>

namespace bench {
using namespace sectile;

constexpr auto copyBf16 = kernel("copy_bf16", [](Tensor<const bf16, 1> X, Tensor<bf16, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {4096, 2048, 1024, 8192});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}));
});

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

/// Softmax over rows that one tile covers.
constexpr auto softmax = kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
  Tile e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});

/// Softmax over rows of any length: one pass for the maximum and the sum, one for the result.
constexpr auto softmaxLoop =
    kernel("softmax_loop", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
      const int BC = cfg.pick("BC", {4096, 2048, 8192});
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
