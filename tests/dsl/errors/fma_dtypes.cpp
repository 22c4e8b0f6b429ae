// SPDX-License-Identifier: Apache-2.0
// A sum of another dtype than the product.
// EXPECT: a is f32 [16], c is f64 [16]
// EXPECT: [fma_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  Tile y = fma(x, 2.0f, full<f64>({16}, 1)); // HERE
  X.store({0}, cast<f32>(y));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
