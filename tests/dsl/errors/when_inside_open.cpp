// SPDX-License-Identifier: Apache-2.0
// A branch that ends while a loop inside it is still open.
// EXPECT: when: a loop or branch inside is still open
// EXPECT: [range_once]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Range r(0, 4, 1);
  when(X.dim(0) > 4, [&] { r.begin(); }); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
