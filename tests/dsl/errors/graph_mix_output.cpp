// SPDX-License-Identifier: Apache-2.0
// A result of another graph.
// EXPECT: the tensor belongs to another graph than 'two'
// EXPECT: [graph_mix]
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
  Graph one("one"), two("two");
  auto y = copy(one.input(nowhere<f32, 2>({16, 16})));
  two.output(y, nowhere<f32, 2>({16, 16})); // HERE
}
