// SPDX-License-Identifier: Apache-2.0
// An offset that is no index.
// EXPECT: load:
// EXPECT: i32
// EXPECT: [offset_index]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  X.store({0}, X.load({n}, {16})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
