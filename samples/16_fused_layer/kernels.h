// SPDX-License-Identifier: Apache-2.0
/// \file What follows the product of a layer: kernels that know nothing of it.
#pragma once

#include "samples/04_matmul/kernels.h"

namespace sample {

/// y = gelu(x + bias), in the form with tanh.
inline constexpr auto addBiasGelu = kernel("bias_gelu", [](Tensor<const bf16, 2> X, Tensor<const bf16, 1> Bias, Tensor<bf16, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64, 128, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Y, {BM, BN});
  Tile x = cast<f32>(X.load({m, n}, {BM, BN})) + reshape(cast<f32>(Bias.load({n}, {BN})), {1, BN});
  Y.store({m, n}, cast<bf16>(x * sigmoid(x * (x * x * 0.07135481627f + 1.595769122f))));
});

/// z = x + y.
inline constexpr auto addTensors = kernel("add", [](Tensor<const bf16, 2> X, Tensor<const bf16, 2> Y, Tensor<bf16, 2> Z, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64, 128, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  auto [m, n] = grid(Z, {BM, BN});
  Z.store({m, n}, cast<bf16>(cast<f32>(X.load({m, n}, {BM, BN})) + cast<f32>(Y.load({m, n}, {BM, BN}))));
});

} // namespace sample
