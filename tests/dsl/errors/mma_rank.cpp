// SPDX-License-Identifier: Apache-2.0
// A product of vectors.
// EXPECT: mma:
// EXPECT: [mma_c5]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile a = X.load({0}, {16});
  X.store({0}, mma(a, a)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
