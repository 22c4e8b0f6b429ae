// SPDX-License-Identifier: Apache-2.0
// A comparison of a type of storage.
// EXPECT: <:
// EXPECT: e2m3 [16]
// EXPECT: [compare_c4]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const e2m3, 1> X, Tensor<bool, 1> Y) {
  Tile x = X.load({0}, {16});
  Y.store({0}, x < 1.0); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<const e2m3, 1>({64}), nowhere<bool, 1>({64}));
}
