// SPDX-License-Identifier: Apache-2.0
// An output whose lengths nothing says.
// EXPECT: the length of axis 0 of output 1 of 'ramp' does not follow from what the kernel stores
// EXPECT: [graph_open]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto ramp = kernel("ramp", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y) {
  auto [n] = grid(Y, {16});
  Y.store({n}, full<f32>({16}, 1.0f));
});

WRONG_PROGRAM(stream) {
  Graph g("ramp");
  auto x = g.input(nowhere<f32, 1>({16}));
  ramp(x); // HERE
}
