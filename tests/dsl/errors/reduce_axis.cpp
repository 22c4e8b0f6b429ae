// SPDX-License-Identifier: Apache-2.0
// An axis the tile has not.
// EXPECT: sum:
// EXPECT: [reduce_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, sum(x, 1)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
