// SPDX-License-Identifier: Apache-2.0
/// \file Layer norm over rows, forward and backward.
#pragma once

#include <sectile/sectile.h>

namespace sample {
using namespace sectile;

/// y = (x - mean) * rstd * w + b with rstd = 1 / sqrt(variance + eps); mean and rstd are kept for the way
/// back.
inline constexpr auto layerNorm =
    kernel("layer_norm",
           [](Tensor<const bf16, 2> X, Tensor<const bf16, 1> W, Tensor<const bf16, 1> B, Tensor<bf16, 2> Y,
              Tensor<f32, 1> Mean, Tensor<f32, 1> Rstd, Scalar<f32> eps, Config &cfg) {
             const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
             const int BC = cfg.cover("BC", X, 1);
             auto [r] = grid(X, {BR});
             Tile n = cast<f32>(X.dim(1));
             Tile x = cast<f32>(X.load({r, 0}, {BR, BC}));
             Tile mean = sum(x, 1) / n;
             Tile d = x - mean;
             Tile rstd = rsqrt(sum(d * d, 1) / n + eps);
             Tile w = cast<f32>(reshape(W.load({0}, {BC}), {1, BC}));
             Tile b = cast<f32>(reshape(B.load({0}, {BC}), {1, BC}));
             Y.store({r, 0}, cast<bf16>(d * rstd * w + b));
             Mean.store({r}, mean.drop(1));
             Rstd.store({r}, rstd.drop(1));
           });

/// dx = (g - h * mean(g * h) - mean(g)) * rstd, where h = (x - mean) * rstd and g = dy * w.
inline constexpr auto layerNormBackwardData =
    kernel("layer_norm_backward_data",
           [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> DY, Tensor<const bf16, 1> W,
              Tensor<const f32, 1> Mean, Tensor<const f32, 1> Rstd, Tensor<bf16, 2> DX, Config &cfg) {
             const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
             const int BC = cfg.cover("BC", X, 1);
             auto [r] = grid(X, {BR});
             Tile n = cast<f32>(X.dim(1));
             Tile mean = reshape(Mean.load({r}, {BR}), {BR, 1});
             Tile rstd = reshape(Rstd.load({r}, {BR}), {BR, 1});
             Tile h = (cast<f32>(X.load({r, 0}, {BR, BC})) - mean) * rstd;
             Tile w = cast<f32>(reshape(W.load({0}, {BC}), {1, BC}));
             Tile g = cast<f32>(DY.load({r, 0}, {BR, BC})) * w;
             DX.store({r, 0}, cast<bf16>((g - h * (sum(g * h, 1) / n) - sum(g, 1) / n) * rstd));
           });

/// dw = sum over rows of dy * (x - mean) * rstd, db = sum over rows of dy. A program adds up a strip of
/// columns.
inline constexpr auto layerNormBackwardWeights =
    kernel("layer_norm_backward_weights",
           [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> DY, Tensor<const f32, 1> Mean,
              Tensor<const f32, 1> Rstd, Tensor<bf16, 1> DW, Tensor<bf16, 1> DB, Config &cfg) {
             const int BR = cfg.pick("BR", {16, 8, 32, 64});
             const int BC = cfg.pick("BC", {128, 64, 256});
             auto [c] = grid(DW, {BC});
             Tile dw = zeros<f32>({BR, BC}), db = zeros<f32>({BR, BC});
             for (Tile r : range(0, X.dim(0), BR)) {
               Tile mean = reshape(Mean.load({r}, {BR}), {BR, 1});
               Tile rstd = reshape(Rstd.load({r}, {BR}), {BR, 1});
               Tile dy = cast<f32>(DY.load({r, c}, {BR, BC}));
               dw += fill(dy * (cast<f32>(X.load({r, c}, {BR, BC})) - mean) * rstd, 0);
               db += fill(dy, 0);
             }
             DW.store({c}, cast<bf16>(sum(dw, 0)).drop(0));
             DB.store({c}, cast<bf16>(sum(db, 0)).drop(0));
           });

/// All three in one pass over x and dy: one program goes through all rows, and blocks share them.
inline constexpr auto layerNormBackward =
    kernel("layer_norm_backward",
           [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> DY, Tensor<const bf16, 1> W,
              Tensor<const f32, 1> Mean, Tensor<const f32, 1> Rstd, Tensor<bf16, 2> DX, Tensor<bf16, 1> DW,
              Tensor<bf16, 1> DB, Config &cfg) {
             const int BR = cfg.pick("BR", {1, 2, 4, 8, 16});
             const int BC = cfg.cover("BC", X, 1);
             grid(DW, {BC}); // covers all columns
             Tile n = cast<f32>(X.dim(1));
             Tile w = cast<f32>(reshape(W.load({0}, {BC}), {1, BC}));
             Tile dw = zeros<f32>({BR, BC}), db = zeros<f32>({BR, BC});
             for (Tile r : range(0, X.dim(0), BR)) {
               Tile mean = reshape(Mean.load({r}, {BR}), {BR, 1});
               Tile rstd = reshape(Rstd.load({r}, {BR}), {BR, 1});
               Tile h = (cast<f32>(X.load({r, 0}, {BR, BC})) - mean) * rstd;
               Tile dy = cast<f32>(DY.load({r, 0}, {BR, BC}));
               Tile g = dy * w;
               DX.store({r, 0}, cast<bf16>((g - h * (sum(g * h, 1) / n) - sum(g, 1) / n) * rstd));
               dw += fill(dy * h, 0);
               db += fill(dy, 0);
             }
             DW.store({0}, cast<bf16>(sum(dw, 0)).drop(0));
             DB.store({0}, cast<bf16>(sum(db, 0)).drop(0));
           });

} // namespace sample
