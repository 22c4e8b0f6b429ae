// SPDX-License-Identifier: Apache-2.0
// An assignment that would change the dtype.
// EXPECT: =:
// EXPECT: declared at other_dtype.cpp:
// EXPECT: f32
// EXPECT: bf16
// EXPECT: [cell_type]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile x = X.load({0}, {16});
  x = cast<bf16>(x); // HERE
  X.store({0}, cast<f32>(x));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
