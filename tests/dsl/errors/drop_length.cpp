// SPDX-License-Identifier: Apache-2.0
// Dropping an axis with lanes.
// EXPECT: drop:
// EXPECT: length 8
// EXPECT: [drop_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  Tile x = X.load({0, 0}, {1, 8});
  X.store({0, 0}, x.drop(1)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
