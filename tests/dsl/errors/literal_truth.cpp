// SPDX-License-Identifier: Apache-2.0
// A truth value beside integers.
// EXPECT: ==:
// EXPECT: true
// EXPECT: i32
// EXPECT: [literal_exact]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile x = X.load({0}, {16});
  Tile y = x == true; // HERE
  X.store({0}, cast<i32>(y));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
