// SPDX-License-Identifier: Apache-2.0
// K of a differs from K of b.
// EXPECT: mma:
// EXPECT: 64
// EXPECT: 32
// EXPECT: [mma_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile a = X.load({0, 0}, {16, 64}), b = X.load({0, 0}, {32, 16});
  X.store({0, 0}, mma(a, b)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
