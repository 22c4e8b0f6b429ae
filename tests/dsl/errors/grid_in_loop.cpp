// SPDX-License-Identifier: Apache-2.0
// A grid inside a loop.
// EXPECT: grid:
// EXPECT: loop or branch
// EXPECT: [grid_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  for (Tile i : range(0, 4)) {
    auto [a] = grid(X, {16}); // HERE
    X.store({a}, X.load({i}, {16}));
  }
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
