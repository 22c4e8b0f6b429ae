// SPDX-License-Identifier: Apache-2.0
// The body of a loop that ends while a loop inside it is still open.
// EXPECT: loopWhile: a loop or branch inside is still open
// EXPECT: [range_once]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Range r(0, 4, 1);
  loopWhile([&] { return X.dim(0) > 4; }, [&] { r.begin(); }); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
