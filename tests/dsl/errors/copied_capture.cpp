// SPDX-License-Identifier: Apache-2.0
// A branch that assigns a copy.
// EXPECT: when:
// EXPECT: copy
// EXPECT: [when_copy]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  Tile x = zeros<f32>({16});
  when(n > 0, [=]() mutable { x = x + 1.0f; }); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
