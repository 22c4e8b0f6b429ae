// SPDX-License-Identifier: Apache-2.0
// An accumulator of the wrong dtype.
// EXPECT: mma:
// EXPECT: i32
// EXPECT: [mma_c4]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile a = X.load({0, 0}, {16, 64}), b = X.load({0, 0}, {64, 16});
  Tile c = mma(a, b, zeros<i32>({16, 16})); // HERE
  X.store({0, 0}, cast<f32>(c));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
