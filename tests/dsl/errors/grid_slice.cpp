// SPDX-License-Identifier: Apache-2.0
// A grid over a slice.
// EXPECT: grid:
// EXPECT: [grid_c4]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  auto part = X.slice(0, 0, 8);
  auto [a] = grid(part, {16}); // HERE
  X.store({a}, X.load({a}, {16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
