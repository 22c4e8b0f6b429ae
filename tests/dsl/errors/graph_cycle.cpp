// SPDX-License-Identifier: Apache-2.0
// Two nodes that each read what the other one writes.
// EXPECT: 'copy' reads the tensor of [32, 16] made at line
// EXPECT: which no node before it writes
// EXPECT: [graph_unwritten]
// EXPECT: a cycle has no beginning
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;

static constexpr auto copy = kernel("copy", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16});
  auto [m, n] = grid(X, {B, B});
  Y.store({m, n}, X.load({m, n}, {B, B}));
});

WRONG_PROGRAM(stream) {
  Graph g("cycle");
  auto a = g.tensor<f32, 2>({32, 16});
  auto b = g.tensor<f32, 2>({32, 16});
  copy(a, b); // HERE
  copy(b, a);
}
