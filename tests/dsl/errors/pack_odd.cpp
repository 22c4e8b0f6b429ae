// SPDX-License-Identifier: Apache-2.0
// A half pair.
// EXPECT: pack:
// EXPECT: e2m1 [15]
// EXPECT: [packed_pairs]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const f32, 1> X, Tensor<e2m1x2, 1> Y) {
  Tile x = cast<e2m1>(X.load({0}, {15}));
  Y.store({0}, pack(x)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<const f32, 1>({64}), nowhere<e2m1x2, 1>({64}));
}
