// SPDX-License-Identifier: Apache-2.0
// Two nodes that have nothing to do with each other.
// EXPECT: 2 nodes become 2 kernels: some have no tensor in common
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

WRONG_PROGRAM(stream) {
  Graph g("apart"); // HERE
  copy(g.input(nowhere<f32, 2>({16, 16})));
  copy(g.input(nowhere<f32, 2>({16, 16})));
  g.build(fuse::require);
}
