// SPDX-License-Identifier: Apache-2.0
// Two memories for one result.
// EXPECT: the tensor of [16, 16] has memory already, given at line
// EXPECT: [graph_output]
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
  auto y = copy(g.input(nowhere<f32, 2>({16, 16})));
  g.output(y, nowhere<f32, 2>({16, 16}));
  g.output(y, nowhere<f32, 2>({16, 16})); // HERE
}
