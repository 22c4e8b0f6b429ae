// SPDX-License-Identifier: Apache-2.0
// A tile of another dtype than the tensor.
// EXPECT: store:
// EXPECT: f32
// EXPECT: bf16
// EXPECT: [store_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<bf16, 1> X) {
  X.store({0}, zeros<f32>({16})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<bf16, 1>({64}));
}
