// SPDX-License-Identifier: Apache-2.0
// A view that reaches behind the tensor.
// EXPECT: the view has elements from 8 to 263, the tensor of [16, 16] from 0 to 255
// EXPECT: [graph_view]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

WRONG_PROGRAM(stream) {
  Graph g("view");
  auto x = g.input(nowhere<f32, 2>({16, 16}));
  g.view(x, {16, 2, 8}, {16, 8, 1}, 8); // HERE
}
