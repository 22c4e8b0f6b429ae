// SPDX-License-Identifier: Apache-2.0
// A graph without nodes.
// EXPECT: graph 'nothing' has no node
// EXPECT: [graph_empty]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

WRONG_PROGRAM(stream) {
  Graph g("nothing");
  g.input(nowhere<f32, 2>({16, 16}));
  g.build(); // HERE
}
