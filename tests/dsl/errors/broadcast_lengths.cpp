// SPDX-License-Identifier: Apache-2.0
// Lengths that differ and are not 1.
// EXPECT: -:
// EXPECT: [broadcast_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile x = X.load({0, 0}, {4, 16}), y = X.load({0, 0}, {4, 8});
  X.store({0, 0}, x - y); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
