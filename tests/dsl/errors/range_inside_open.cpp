// SPDX-License-Identifier: Apache-2.0
// A loop that ends while one inside it is still open. The end has no position; the last operation before it has.
// EXPECT: range: a loop or branch inside this loop is still open
// EXPECT: [range_once]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Range outer(0, 4, 1), inner(0, 4, 1);
  Range::Iterator i = outer.begin(), j = inner.begin();
  X.store({0}, zeros<f32>({16})); // HERE
  ++i;
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
