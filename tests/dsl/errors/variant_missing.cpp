// SPDX-License-Identifier: Apache-2.0
// A variant with parameters that the kernel does not list.
// EXPECT: apply:
// EXPECT: [apply_variant]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto shifted = [](Tile x, Scalar<f32> by) { return x + by; };

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, apply<shifted>(x)); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
