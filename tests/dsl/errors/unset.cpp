// SPDX-License-Identifier: Apache-2.0
// A Tile that never gets a value.
// EXPECT: store:
// EXPECT: declared at unset.cpp:
// EXPECT: has no value
// EXPECT: [cell_unset]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x;
  X.store({0}, x); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
