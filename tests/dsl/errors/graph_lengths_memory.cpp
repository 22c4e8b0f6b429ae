// SPDX-License-Identifier: Apache-2.0
// A result given memory of other lengths.
// EXPECT: the memory has lengths [16, 32], the tensor [16, 16]
// EXPECT: [graph_lengths]
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
  g.output(y, nowhere<f32, 2>({16, 32})); // HERE
}
