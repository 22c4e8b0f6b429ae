// SPDX-License-Identifier: Apache-2.0
// A sum over chunks under a mask that moves with the loop.
// EXPECT: =:
// EXPECT: mask
// EXPECT: [carried_extent]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile acc = zeros<f32>({16, 16});
  for (Tile k : range(0, X.dim(1), 16)) {
    Tile x = X.load({0, k}, {16, 16}).fill(0);
    acc = acc + keep(k + iota(1, 16) < 40, x); // HERE
  }
  X.store({0, 0}, acc);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
