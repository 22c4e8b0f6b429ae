// SPDX-License-Identifier: Apache-2.0
// Memory with gaps for a tensor of which there are views.
// EXPECT: the tensor of [16, 16] has views, and its memory gaps or another order
// EXPECT: [graph_view]
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
  Graph g("view");
  auto y = copy(g.input(nowhere<f32, 2>({16, 16})));
  g.view(y, {16, 8}, {16, 2});
  g.output(y, Tensor<f32, 2>(nowhere<f32, 2>({16, 32}).data(), {16, 16}, {32, 1})); // HERE
}
