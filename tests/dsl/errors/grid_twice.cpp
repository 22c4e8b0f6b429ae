// SPDX-License-Identifier: Apache-2.0
// Two grids.
// EXPECT: grid:
// EXPECT: [grid_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  auto [a] = grid(X, {16});
  auto [b] = grid(X, {32}); // HERE
  X.store({a}, X.load({b}, {16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
