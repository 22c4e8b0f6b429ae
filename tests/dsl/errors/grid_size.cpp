// SPDX-License-Identifier: Apache-2.0
// A grid of tiles without length.
// EXPECT: grid:
// EXPECT: [grid_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  const int none = 0;
  auto [a] = grid(X, {none}); // HERE
  X.store({a}, X.load({a}, {16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
