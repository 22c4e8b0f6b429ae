// SPDX-License-Identifier: Apache-2.0
// A node inside a kernel body.
// EXPECT: kernel 'copy' is called in a graph inside a kernel body
// EXPECT: [launch_in_trace]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto copy = kernel("copy", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16});
  auto [m, n] = grid(X, {B, B});
  Y.store({m, n}, X.load({m, n}, {B, B}));
});

static Graph *inside;
static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  auto x = inside->tensor<f32, 2>({16, 16});
  copy(x, x); // HERE
  X.store({0, 0}, 0.0f);
});

WRONG_PROGRAM(stream) {
  Graph g("inside");
  inside = &g;
  wrong(stream, nowhere<f32, 2>({16, 16}));
}
