// SPDX-License-Identifier: Apache-2.0
// Tensors of two graphs in one call.
// EXPECT: tensors of two graphs, 'one' and 'two'
// EXPECT: [graph_mix]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto add = kernel("add", [](Tensor<const f32, 2> X, Tensor<const f32, 2> Y, Tensor<f32, 2> Z) {
  Z.store({0, 0}, X.load({0, 0}, {16, 16}) + Y.load({0, 0}, {16, 16}));
});

WRONG_PROGRAM(stream) {
  Graph one("one"), two("two");
  auto x = one.input(nowhere<f32, 2>({16, 16}));
  auto y = two.input(nowhere<f32, 2>({16, 16}));
  add(x, y); // HERE
}
