// SPDX-License-Identifier: Apache-2.0
// A constant outside the parameter's range.
// EXPECT: launch:
// EXPECT: -1
// EXPECT: u8
// EXPECT: [launch_number]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<u8, 1> X, Const<u8> n) {
  X.store({0}, full<u8>({16}, n.value));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<u8, 1>({64}), -1); // HERE
}
