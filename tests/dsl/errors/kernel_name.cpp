// SPDX-License-Identifier: Apache-2.0
// A name that is no identifier.
// EXPECT: my kernel
// EXPECT: [kernel_name]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("my kernel", [](Tensor<f32, 1> X) { // HERE
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
