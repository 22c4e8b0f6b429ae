// SPDX-License-Identifier: Apache-2.0
// The length of an axis the tensor has not.
// EXPECT: dim:
// EXPECT: [dim_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile n = X.dim(1); // HERE
  X.store({n}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
