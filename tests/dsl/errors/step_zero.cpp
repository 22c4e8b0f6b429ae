// SPDX-License-Identifier: Apache-2.0
// A step of 0.
// EXPECT: range:
// EXPECT: [range_step]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  for (Tile i : range(0, 4, 0)) // HERE
    X.store({i}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
