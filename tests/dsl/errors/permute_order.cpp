// SPDX-License-Identifier: Apache-2.0
// An order that is no permutation.
// EXPECT: permute:
// EXPECT: [permute_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile x = X.load({0, 0}, {4, 8});
  X.store({0, 0}, permute(x, {1, 1})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
