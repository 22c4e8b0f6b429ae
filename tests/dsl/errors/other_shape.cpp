// SPDX-License-Identifier: Apache-2.0
// An assignment that would change the shape.
// EXPECT: =:
// EXPECT: [16]
// EXPECT: [cell_type]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = zeros<f32>({16});
  for (Tile i : range(0, 4))
    x = sum(X.load({i}, {16}), 0); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
