// SPDX-License-Identifier: Apache-2.0
// A number that the dtype cannot hold.
// EXPECT: +:
// EXPECT: 300
// EXPECT: i8
// EXPECT: [literal_exact]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i8, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x + 300); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i8, 1>({64}));
}
