// SPDX-License-Identifier: Apache-2.0
// An accumulator of another shape.
// EXPECT: mma:
// EXPECT: [16, 32]
// EXPECT: [mma_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile a = X.load({0, 0}, {16, 64}), b = X.load({0, 0}, {64, 16});
  X.store({0, 0}, mma(a, b, zeros<f32>({16, 32}))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
