// SPDX-License-Identifier: Apache-2.0
// A tensor of a negative length.
// EXPECT: axis 1 has length -1
// EXPECT: [graph_lengths]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;

WRONG_PROGRAM(stream) {
  Graph g("negative");
  g.tensor<f32, 2>({16, -1}); // HERE
}
