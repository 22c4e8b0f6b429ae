// SPDX-License-Identifier: Apache-2.0
// A chunk handed to the next trip with its tail.
// EXPECT: =:
// EXPECT: tail
// EXPECT: [carried_extent]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile last = zeros<f32>({16});
  for (Tile k : range(0, X.dim(0), 16))
    last = exp(X.load({k}, {16})); // HERE
  X.store({0}, last);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
