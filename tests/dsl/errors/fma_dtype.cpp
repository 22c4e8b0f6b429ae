// SPDX-License-Identifier: Apache-2.0
// A fused product and sum of integers.
// EXPECT: fma is defined on f32 and f64, a is i32 [16]
// EXPECT: [fma_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile x = X.load({0}, {16});
  Tile y = fma(x, x, x); // HERE
  X.store({0}, y);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
