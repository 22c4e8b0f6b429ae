// SPDX-License-Identifier: Apache-2.0
// break in a traced loop.
// EXPECT: range:
// EXPECT: break
// EXPECT: [loop_left]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  for (Tile i : range(0, 4)) { // HERE
    X.store({i}, zeros<f32>({16}));
    break;
  }
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
