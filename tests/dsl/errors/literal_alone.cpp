// SPDX-License-Identifier: Apache-2.0
// A host number without a tile beside it.
// EXPECT: exp:
// EXPECT: [literal_dtype]
// EXPECT: scalar<f32>
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = sectile::exp(TileAt(1.0f)); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
