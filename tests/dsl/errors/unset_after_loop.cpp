// SPDX-License-Identifier: Apache-2.0
// A value that only the trips of a loop give.
// EXPECT: *:
// EXPECT: may run zero times
// EXPECT: [cell_unset]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x;
  for (Tile i : range(0, X.dim(0)))
    x = X.load({i}, {1}).drop(0);
  X.store({0}, x * 2.0f); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
