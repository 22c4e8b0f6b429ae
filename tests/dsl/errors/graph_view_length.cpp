// SPDX-License-Identifier: Apache-2.0
// A view of a negative length.
// EXPECT: axis 1 of the view has length -2
// EXPECT: [graph_lengths]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

WRONG_PROGRAM(stream) {
  Graph g("view");
  auto x = g.input(nowhere<f32, 2>({16, 16}));
  g.view(x, {16, -2}, {16, 1}); // HERE
}
