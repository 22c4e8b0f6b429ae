// SPDX-License-Identifier: Apache-2.0
// A fill of another dtype.
// EXPECT: fill:
// EXPECT: i32
// EXPECT: [fill_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x.fill(scalar<i32>(0))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
