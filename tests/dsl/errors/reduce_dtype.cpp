// SPDX-License-Identifier: Apache-2.0
// any of floats.
// EXPECT: any:
// EXPECT: f32
// EXPECT: [reduce_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  Tile y = any(x, 0); // HERE
  X.store({0}, cast<f32>(y));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
