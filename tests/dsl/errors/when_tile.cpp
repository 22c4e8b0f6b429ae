// SPDX-License-Identifier: Apache-2.0
// A branch on a whole tile.
// EXPECT: when:
// EXPECT: [16]
// EXPECT: [condition_scalar]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  when(x > 0.0f, [&] { x = x * 2.0f; }); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
