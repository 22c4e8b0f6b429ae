// SPDX-License-Identifier: Apache-2.0
// A slice along an axis the tensor has not.
// EXPECT: slice:
// EXPECT: [slice_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  auto part = X.slice(1, 0, 8); // HERE
  part.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
