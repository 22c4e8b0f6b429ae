// SPDX-License-Identifier: Apache-2.0
// A number of a part that the kernel does not have.
// EXPECT: "third.B" is set to 16, but no part of the kernel has that name
// EXPECT: [config_unknown]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto twice = kernel("twice", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16, 32});
  auto [m, n] = grid(X, {B, B});
  Tile x = X.load({m, n}, {B, B});
  Y.store({m, n}, x + x);
});
static constexpr auto half = kernel("half", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y) {
  auto [m, n] = grid(X, {16, 16});
  Y.store({m, n}, X.load({m, n}, {16, 16}) * 0.5f);
});

WRONG_PROGRAM(stream) {
  Graph g("numbers");
  auto x = g.input(nowhere<f32, 2>({64, 64}));
  half(twice(x)); // HERE
  g.build(fuse::require, Config().set("third.B", 16)).emit("tile", "sm_90a");
}
