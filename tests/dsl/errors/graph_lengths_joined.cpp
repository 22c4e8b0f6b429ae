// SPDX-License-Identifier: Apache-2.0
// A bias of another length than the rows that it is added to.
// EXPECT: 'bias' joins axis 1 of argument 0, of length 48, and axis 0 of argument 1, of length 32
// EXPECT: [graph_lengths]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto bias = kernel("bias", [](Tensor<const f32, 2> X, Tensor<const f32, 1> B, Tensor<f32, 2> Y) {
  auto [m, n] = grid(X, {16, 16});
  Y.store({m, n}, X.load({m, n}, {16, 16}) + reshape(B.load({n}, {16}), {1, 16}));
});

WRONG_PROGRAM(stream) {
  Graph g("bias");
  auto x = g.input(nowhere<f32, 2>({16, 48}));
  auto b = g.input(nowhere<f32, 1>({32}));
  bias(x, b); // HERE
}
