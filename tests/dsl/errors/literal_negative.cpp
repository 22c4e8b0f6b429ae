// SPDX-License-Identifier: Apache-2.0
// A negative number beside unsigned integers.
// EXPECT: max:
// EXPECT: -1
// EXPECT: u8
// EXPECT: [literal_exact]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<u8, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, max(-1, x)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<u8, 1>({64}));
}
