// SPDX-License-Identifier: Apache-2.0
// Numbers by hand with which the parts have other programs.
// EXPECT: with B=32 the kernel's parts are not one kernel: programs of 'half' cover [16, 16] elements, those of 'twice' [32, 32]
// EXPECT: [fuse_numbers]
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
  auto [m, n] = grid(X, {16, 16}); // HERE
  Y.store({m, n}, X.load({m, n}, {16, 16}) * 0.5f);
});

WRONG_PROGRAM(stream) {
  Graph g("numbers");
  auto x = g.input(nowhere<f32, 2>({64, 64}));
  half(twice(x));
  g.build(fuse::require, Config().set("B", 32)).emit("tile", "sm_90a");
}
