// SPDX-License-Identifier: Apache-2.0
// A tile of six axes.
// EXPECT: full:
// EXPECT: 6 axes
// EXPECT: [tile_rank]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = zeros<f32>({1, 1, 1, 1, 1, 4}); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
