// SPDX-License-Identifier: Apache-2.0
// A fraction beside integers.
// EXPECT: *:
// EXPECT: 0.5
// EXPECT: i32
// EXPECT: [literal_exact]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x * 0.5); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
