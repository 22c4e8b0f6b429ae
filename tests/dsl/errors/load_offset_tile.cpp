// SPDX-License-Identifier: Apache-2.0
// An offset with many lanes.
// EXPECT: load:
// EXPECT: [offset_index]
// EXPECT: at(
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  X.store({0}, X.load({iota(16)}, {16})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
