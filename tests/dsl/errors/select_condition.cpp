// SPDX-License-Identifier: Apache-2.0
// A condition that is no truth value.
// EXPECT: select:
// EXPECT: [select_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, select(x, x, 0.0f)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
