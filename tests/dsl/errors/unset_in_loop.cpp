// SPDX-License-Identifier: Apache-2.0
// A sum that starts from nothing.
// EXPECT: +:
// EXPECT: has no value
// EXPECT: [cell_unset]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x;
  for (Tile i : range(0, 4))
    x = x + X.load({i}, {16}).fill(0); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
