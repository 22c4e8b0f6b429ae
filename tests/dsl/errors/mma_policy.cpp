// SPDX-License-Identifier: Apache-2.0
// The tf32 policy on other dtypes.
// EXPECT: mma:
// EXPECT: tf32
// EXPECT: bf16
// EXPECT: [mma_c6]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<bf16, 2> X) {
  Tile a = X.load({0, 0}, {16, 16});
  Tile c = mma(a, a, MmaPolicy::tf32); // HERE
  X.store({0, 0}, cast<bf16>(c));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<bf16, 2>({64, 64}));
}
