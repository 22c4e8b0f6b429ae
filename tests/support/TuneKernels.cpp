// SPDX-License-Identifier: Apache-2.0
// A shared library with kernels that `sectile tune` and `sectile build` load.
#include "tests/support/TuneKernels.h"

#include <sectile/Publish.h>
#include <sectile/sectile.h>

namespace {

using namespace sectile;

constexpr auto scale = kernel("scale", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Scalar<float> c, Config &cfg) {
  const int B = cfg.pick("B", {256, 64, 1024});
  auto [i] = grid(X, {B});
  Y.store({i}, X.load({i}, {B}) * c);
});
constexpr auto lookUp = kernel("look_up", [](Tensor<const i32, 1> I, Tensor<const float, 1> T, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {128, 64, 256});
  auto [i] = grid(I, {B});
  Y.store({i}, T.at(cast<sectile::index>(I.load({i}, {B}))));
});
constexpr auto softmax = kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC})), e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});
constexpr auto columnSums = kernel("column_sums", [](Tensor<const float, 2> X, Tensor<float, 1> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {16, 32}), BC = cfg.pick("BC", {128, 64});
  auto [c] = grid(Y, {BC});
  Tile total = zeros<f32>({BR, BC});
  for (Tile r : range(0, X.dim(0), BR))
    total += X.load({r, c}, {BR, BC}).fill(0.0f);
  Y.store({c}, sum(total, 0).drop(0));
});

const bool published[] = {publish(scale), publish(lookUp), publish(softmax), publish(columnSums), publish(test::tunedMatmul<bf16>),
                          publish(test::tunedMatmul<f16>, "matmul_f16")};

} // namespace
