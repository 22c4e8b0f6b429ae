// SPDX-License-Identifier: Apache-2.0
// Coordinates that are no index.
// EXPECT: at:
// EXPECT: i32
// EXPECT: [offset_index]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Tensor<const i32, 1> I) {
  X.store({0}, X.at(I.load({0}, {16}))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), nowhere<const i32, 1>({64}));
}
