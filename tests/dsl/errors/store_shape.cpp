// SPDX-License-Identifier: Apache-2.0
// A tile of more axes than the tensor.
// EXPECT: store:
// EXPECT: [store_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({4, 4})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
