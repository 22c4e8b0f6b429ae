// SPDX-License-Identifier: Apache-2.0
// A fill value of another dtype.
// EXPECT: full:
// EXPECT: i32
// EXPECT: [full_scalar]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  Tile x = full<f32>({16}, n); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
