// SPDX-License-Identifier: Apache-2.0
// An operator of integers on floats.
// EXPECT: <<:
// EXPECT: f32
// EXPECT: [binary_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x << x); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
