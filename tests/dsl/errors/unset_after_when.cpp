// SPDX-License-Identifier: Apache-2.0
// A value that one branch gives.
// EXPECT: store:
// EXPECT: a branch of the when
// EXPECT: [cell_unset]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  Tile x;
  when(n > 0, [&] { x = scalar<f32>(1.0f); });
  X.store({0}, x); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
