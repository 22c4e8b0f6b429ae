// SPDX-License-Identifier: Apache-2.0
// A tensor with elements and a null pointer.
// EXPECT: launch:
// EXPECT: argument 0 has dims [16] and its data pointer is null
// EXPECT: [null_pointer]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  some(stream, nowhere<f32, 1>({16})); // HERE
}
