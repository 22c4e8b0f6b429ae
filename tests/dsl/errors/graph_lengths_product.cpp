// SPDX-License-Identifier: Apache-2.0
// Operands of a product whose K differ.
// EXPECT: 'product' multiplies along axis 1 of argument 0, of length 64, and axis 0 of argument 1, of length 32
// EXPECT: [graph_lengths]
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto product = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C) {
  auto [m, n] = grid(C, {16, 16});
  Tile acc = zeros<f32>({16, 16});
  for (Tile k : range(0, A.dim(1), 16))
    acc = mma(A.load({m, k}, {16, 16}), B.load({k, n}, {16, 16}), acc);
  C.store({m, n}, acc);
});

WRONG_PROGRAM(stream) {
  Graph g("product");
  auto a = g.input(nowhere<bf16, 2>({16, 64}));
  auto b = g.input(nowhere<bf16, 2>({32, 16}));
  product(a, b); // HERE
}
