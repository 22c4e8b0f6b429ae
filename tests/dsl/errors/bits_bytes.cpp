// SPDX-License-Identifier: Apache-2.0
// The bits of a type as one of another size.
// EXPECT: bitsAs:
// EXPECT: f32 [16]
// EXPECT: u8
// EXPECT: [unary_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const f32, 1> X, Tensor<u8, 1> Y) {
  Y.store({0}, bitsAs<u8>(X.load({0}, {16}))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<const f32, 1>({64}), nowhere<u8, 1>({64}));
}
