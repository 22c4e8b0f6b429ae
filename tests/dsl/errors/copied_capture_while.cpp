// SPDX-License-Identifier: Apache-2.0
// A loop that assigns a copy.
// EXPECT: loopWhile:
// EXPECT: copy
// EXPECT: [when_copy]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<i32, 1> X) {
  Tile n = scalar<i32>(4);
  loopWhile([&] { return n > 0; }, [=]() mutable { n = n - 1; }); // HERE
  X.store({0}, n);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<i32, 1>({64}));
}
