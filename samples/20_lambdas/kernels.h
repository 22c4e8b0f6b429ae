// SPDX-License-Identifier: Apache-2.0
/// \file A product with lambdas for what it loads and for its sums: what stands before and behind it, without a graph.
#pragma once

#include "samples/04_matmul/kernels.h"

namespace sample {

/// A prologue makes of a loaded tile what the product multiplies: `prologue(tile, i, j, ..)`, where i and j are the offsets of the
/// tile. Its further parameters become parameters of the kernel, as those of an epilogue. This one changes nothing.
inline constexpr auto asLoaded = [](Tile tile, Tile, Tile) { return tile; };

/// Rows of weights that have a scale in common.
inline constexpr int scaleRows = 128;
/// Of 8-bit weights, with a scale per column for every 128 rows.
inline constexpr auto dequantised = [](Tile w, Tile k, Tile n, Tensor<const f32, 2> scales) {
  return cast<bf16>(cast<f32>(w) * scales.load({floorDiv(k, scaleRows), n}, {1, w.length(1)}));
};
/// Of activations, with 1 / sqrt(mean of squares + eps) per row, which another kernel has computed, and a weight per column.
inline constexpr auto normalised = [](Tile x, Tile m, Tile k, Tensor<const f32, 2> s, Tensor<const bf16, 1> w) {
  const int height = x.length(0), width = x.length(1);
  return cast<bf16>(cast<f32>(x) * s.load({m, 0}, {height, 1}) * cast<f32>(reshape(w.load({k}, {width}), {1, width})));
};

/// Sums go by groups of so many rows and columns, which all tiles are multiples of: their number is that of no tile.
inline constexpr int groupRows = 16, groupColumns = 32;
/// Adds a residual, and gives the sums of squares of each row, by groups of columns, and the sums of each column, by groups of rows:
/// statistics of the next normalisation, the gradient of a bias.
inline constexpr auto withSums = [](Tile sums, Tile m, Tile n, Tensor<const bf16, 2> residual, Tensor<f32, 2> ofRows, Tensor<f32, 2> ofColumns) {
  const int height = sums.length(0), width = sums.length(1);
  Tile y = sums + cast<f32>(residual.load({m, n}, {height, width}));
  ofRows.store({m, floorDiv(n, groupColumns)}, sum(reshape(y * y, {height, width / groupColumns, groupColumns}), 2).drop(2));
  ofColumns.store({floorDiv(m, groupRows), n}, sum(reshape(y, {height / groupRows, groupRows, width}), 1).drop(1));
  return y;
};

/// 8 bits with a scale for each 32 columns of a row, chosen so that the largest of them is the largest number of 8 bits.
inline constexpr auto quantisedByGroups = [](Tile sums, Tile m, Tile n, Tensor<f32, 2> scales) {
  const int height = sums.length(0), width = sums.length(1), groups = width / groupColumns;
  Tile x = reshape(sums, {height, groups, groupColumns});
  Tile scale = max(max(abs(x), 2) / 448.0f, 1e-30f);
  scales.store({m, floorDiv(n, groupColumns)}, scale.drop(2));
  return reshape(x / scale, {height, width});
};

/// Rows of a page, a multiple of each tile's.
inline constexpr int pageRows = 128;
/// Keeps the result, and writes it to pages as well: rows p pageRows, .. of it to page table[p].
inline constexpr auto intoPages = [](Tile sums, Tile m, Tile n, Tensor<const i32, 1> table, Tensor<bf16, 3> pages) {
  const int height = sums.length(0), width = sums.length(1);
  Tile page = cast<Index>(table.at(floorDiv(m, pageRows)));
  pages.store({page, floorMod(m, pageRows), n}, reshape(cast<bf16>(sums), {1, height, width}));
  return sums;
};
/// The same row by row, row i to row table[i]; a place that is none is left out. Each row is taken out of the tile by a sum over the others,
/// so this is for few rows: one token of each sequence.
inline constexpr auto intoRows = [](Tile sums, Tile m, Tile n, Tensor<const i32, 1> table, Tensor<bf16, 2> rows) {
  const int height = sums.length(0);
  for (Tile i : range(0, height)) {
    Tile row = sum(keep(iota(height, 1) == i, sums), 0);
    Tile place = select(m + i < table.dim(0), table.at(m + i), -1); // rows that there are
    rows.store({cast<Index>(place), n}, cast<bf16>(row));
  }
  return sums;
};

/// C = f(ofA(A) ofB(B)) with sums in f32, and f the epilogue.
template <class TA, class TB, class Out, auto ofA, auto ofB, auto epilogue>
inline constexpr auto productOf = kernel<ofA, ofB, epilogue>("product", [](Tensor<const TA, 2> A, Tensor<const TB, 2> B, Tensor<Out, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {64, 128, 16}), BN = cfg.pick("BN", {128, 64, 32}), BK = cfg.pick("BK", {64, 32, 128});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(apply<ofA>(A.load({m, k}, {BM, BK}), m, k), apply<ofB>(B.load({k, n}, {BK, BN}), k, n), acc);
  C.store({m, n}, cast<Out>(apply<epilogue>(acc, m, n)));
});

/// Normalised activations times 8-bit weights, plus a residual, with sums of the result.
inline constexpr const auto &normalisedProduct = productOf<bf16, e4m3, bf16, normalised, dequantised, withSums>;
inline constexpr const auto &quantisedProduct = productOf<bf16, bf16, e4m3, asLoaded, asLoaded, quantisedByGroups>;
inline constexpr const auto &pagedProduct = productOf<bf16, bf16, bf16, asLoaded, asLoaded, intoPages>;
inline constexpr const auto &scatteredProduct = productOf<bf16, bf16, bf16, asLoaded, asLoaded, intoRows>;

} // namespace sample
