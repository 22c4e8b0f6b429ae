// SPDX-License-Identifier: Apache-2.0
// An integer that the float dtype would round.
// EXPECT: +:
// EXPECT: 257
// EXPECT: bf16
// EXPECT: [literal_exact]
// EXPECT: 257.0
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<bf16, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x + 257); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<bf16, 1>({64}));
}
