// SPDX-License-Identifier: Apache-2.0
// Arithmetic on a type of storage.
// EXPECT: +:
// EXPECT: ue8m0 [16]
// EXPECT: [binary_c3]
// EXPECT: cast<f32>
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<ue8m0, 1> X) {
  Tile x = X.load({0}, {16});
  X.store({0}, x + x); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<ue8m0, 1>({64}));
}
