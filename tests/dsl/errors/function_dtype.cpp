// SPDX-License-Identifier: Apache-2.0
// A function of floats on integers.
// EXPECT: exp:
// EXPECT: i32
// EXPECT: [unary_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, exp(x)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
