// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products: operand types, results and epilogues that users meet.
#pragma once

#include <sectile/sectile.h>

#include <type_traits>

namespace sample {
using namespace sectile;

/// An epilogue makes of a tile of sums what is rounded and stored: `epilogue(sums, m, n, ..)`, where m and n
/// are the offsets of the tile. Its further parameters become parameters of the kernel. This one changes
/// nothing.
inline constexpr auto asSummed = [](Tile sums, Tile, Tile) { return sums; };

/// gelu(sums + bias), in the form with tanh; 0.5 (1 + tanh(u)) is the sigmoid of 2 u.
inline constexpr auto biasGelu = [](Tile sums, Tile, Tile n, Tensor<const bf16, 1> bias) {
  const int width = sums.length(1);
  Tile x = sums + reshape(cast<f32>(bias.load({n}, {width})), {1, width});
  return x * sigmoid(x * (x * x * 0.07135481627f + 1.595769122f));
};

/// One scale per operand, in device memory.
inline constexpr auto scaled = [](Tile sums, Tile, Tile, Tensor<const f32, 1> a, Tensor<const f32, 1> b) {
  return sums * (a.load({0}, {1}) * b.load({0}, {1})).drop(0);
};

/// A scale per row of A, another per column of B.
inline constexpr auto scaledByRows = [](Tile sums, Tile m, Tile n, Tensor<const f32, 1> a,
                                        Tensor<const f32, 1> b) {
  const int height = sums.length(0), width = sums.length(1);
  return sums * reshape(a.load({m}, {height}), {height, 1}) * reshape(b.load({n}, {width}), {1, width});
};

/// The type of sums.
template <class T> using SumOf = std::conditional_t<std::is_integral_v<T>, i32, f32>;

/// C = A B with sums in f32, or in i32 for 8-bit integers. A and B may lie in memory either way: by rows, or
/// by columns as views with the strides exchanged. The order of each list is the search order, its first
/// number the default.
template <class T, class Out = T, auto epilogue = asSummed, MmaPolicy policy = MmaPolicy::exact>
inline constexpr auto matmulOf = kernel<epilogue>("matmul", [](Tensor<const T, 2> A, Tensor<const T, 2> B,
                                                               Tensor<Out, 2> C, Config &cfg) {
  constexpr bool isWide = sizeof(T) == 4;
  const int BM = cfg.pick("BM", {128, 64, 256, 16});
  const int BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  const int BK = cfg.pick("BK", {isWide ? 32 : 64, isWide ? 64 : 32, 128, 256, 512});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<SumOf<T>>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc, policy);
  C.store({m, n}, cast<Out>(apply<epilogue>(acc, m, n)));
});

/// Y = silu(X V) * (X W): the two products of a gated layer share their loads of X.
template <class T>
inline constexpr auto gatedOf = kernel("gated", [](Tensor<const T, 2> X, Tensor<const T, 2> V,
                                                   Tensor<const T, 2> W, Tensor<T, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256, 16});
  const int BN = cfg.pick("BN", {128, 64, 32, 256});
  const int BK = cfg.pick("BK", {64, 32, 128});
  auto [m, n] = grid(Y, {BM, BN});
  Tile gate = zeros<f32>({BM, BN}), up = zeros<f32>({BM, BN});
  for (Tile k : range(0, X.dim(1), BK)) {
    Tile x = X.load({m, k}, {BM, BK});
    gate = mma(x, V.load({k, n}, {BK, BN}), gate);
    up = mma(x, W.load({k, n}, {BK, BN}), up);
  }
  Y.store({m, n}, cast<T>(gate * sigmoid(gate) * up));
});

} // namespace sample
