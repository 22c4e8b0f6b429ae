// SPDX-License-Identifier: Apache-2.0
// Ranks that differ.
// EXPECT: <:
// EXPECT: [broadcast_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile x = X.load({0, 0}, {4, 16});
  Tile y = x.t() < sum(x, 1).drop(1); // HERE
  X.store({0, 0}, select(y, x.t(), 0.0f));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
