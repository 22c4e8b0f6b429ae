// SPDX-License-Identifier: Apache-2.0
// Coordinates whose shapes do not fit.
// EXPECT: at:
// EXPECT: [broadcast_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile v = X.at(iota(8), iota(16)); // HERE
  X.store({0, 0}, v);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
