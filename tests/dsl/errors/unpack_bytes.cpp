// SPDX-License-Identifier: Apache-2.0
// Pairs of e2m1 where there are none.
// EXPECT: unpack:
// EXPECT: i8 [16]
// EXPECT: [packed_pairs]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const i8, 1> X, Tensor<f32, 1> Y) {
  Tile x = X.load({0}, {16});
  Y.store({0}, cast<f32>(unpack(x))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<const i8, 1>({64}), nowhere<f32, 1>({64}));
}
