// SPDX-License-Identifier: Apache-2.0
// A negative length.
// EXPECT: full:
// EXPECT: -4
// EXPECT: [tile_length]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  const int length = -4;
  Tile x = full<f32>({length}, 1.0f); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
