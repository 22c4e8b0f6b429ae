// SPDX-License-Identifier: Apache-2.0
// A kernel that a graph does not have.
// EXPECT: kernel 1 of a graph of 1 kernels
// EXPECT: [graph_kernel]
// EXPECT: numbered from 0 to 0
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
  Graph g("copy");
  copy(g.input(nowhere<f32, 2>({16, 16})));
  g.build().emit("tile", "sm_90a", 1); // HERE
}
