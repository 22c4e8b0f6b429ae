// SPDX-License-Identifier: Apache-2.0
// A loop on a number.
// EXPECT: loopWhile:
// EXPECT: i32
// EXPECT: [condition_scalar]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile n = scalar<i32>(4);
  loopWhile([&] { return n; }, [&] { n = n - 1; }); // HERE
  X.store({0}, n);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
