// SPDX-License-Identifier: Apache-2.0
// Kernels whose tiles differ for every choice of their numbers.
// EXPECT: 2 nodes become 2 kernels: 'copy' and 'turn' are not fused: 'turn' loads along axis 1 at offsets that need not be multiples of 16, as those of 'copy' are
// EXPECT: [fuse_require]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto copy = kernel("copy", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16});
  auto [m, n] = grid(X, {B, B});
  Y.store({m, n}, X.load({m, n}, {B, B}));
});

static constexpr auto turn = kernel("turn", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16, 32});
  auto [i, j] = grid(Y, {B, B});
  Tile x = X.load({j, i + 1}, {B, B}); // HERE
  Y.store({i, j}, x.t());
});

WRONG_PROGRAM(stream) {
  Graph g("turned");
  turn(copy(g.input(nowhere<f32, 2>({16, 16}))), g.tensor<f32, 2>({16, 16}));
  g.build(fuse::require);
}
