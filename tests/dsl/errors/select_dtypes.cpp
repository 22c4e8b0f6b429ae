// SPDX-License-Identifier: Apache-2.0
// Branches of two dtypes.
// EXPECT: select:
// EXPECT: [select_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  Tile y = select(x > 0.0f, x, full<i32>({16}, 1)); // HERE
  X.store({0}, y);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
