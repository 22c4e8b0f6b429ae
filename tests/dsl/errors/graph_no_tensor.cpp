// SPDX-License-Identifier: Apache-2.0
// A node with outputs alone, none of them a tensor of the graph.
// EXPECT: no argument of 'ramp' is a tensor of a graph
// EXPECT: [graph_mix]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;

static constexpr auto ramp = kernel("ramp", [](Scalar<f32> v, Tensor<f32, 1> Y) {
  Y.store({0}, reshape(v + full<f32>({16}, 0.0f), {16}));
});

WRONG_PROGRAM(stream) {
  ramp(1.0f); // HERE
}
