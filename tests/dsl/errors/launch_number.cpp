// SPDX-License-Identifier: Apache-2.0
// A number outside the parameter's range.
// EXPECT: launch:
// EXPECT: 4294967296
// EXPECT: i32
// EXPECT: [launch_number]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X, Scalar<i32> n) {
  X.store({0}, full<i32>({16}, n));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}), std::int64_t(1) << 32); // HERE
}
