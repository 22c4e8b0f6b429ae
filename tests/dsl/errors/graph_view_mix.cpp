// SPDX-License-Identifier: Apache-2.0
// A view of another graph's tensor.
// EXPECT: the tensor that is viewed belongs to another graph than 'two'
// EXPECT: [graph_mix]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

WRONG_PROGRAM(stream) {
  Graph one("one"), two("two");
  auto x = one.input(nowhere<f32, 2>({16, 16}));
  two.view(x, {256}, {1}); // HERE
}
