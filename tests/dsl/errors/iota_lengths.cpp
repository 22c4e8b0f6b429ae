// SPDX-License-Identifier: Apache-2.0
// Coordinates along two axes at once.
// EXPECT: iota:
// EXPECT: [iota_axis]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile i = iota(8, 8); // HERE
  X.store({0, 0}, cast<f32>(i));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
