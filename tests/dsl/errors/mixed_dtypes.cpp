// SPDX-License-Identifier: Apache-2.0
// Two dtypes in one sum.
// EXPECT: +:
// EXPECT: f32
// EXPECT: bf16
// EXPECT: [binary_c1]
// EXPECT: (in kernel wrong)
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Tensor<bf16, 1> Y) {
  Tile x = X.load({0}, {16}), y = Y.load({0}, {16});
  X.store({0}, x + y); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), nowhere<bf16, 1>({64}));
}
