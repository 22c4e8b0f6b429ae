// SPDX-License-Identifier: Apache-2.0
// A buffer of another rank.
// EXPECT: rank 1
// EXPECT: rank 2
// EXPECT: [buffer_rank]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  X.store({0, 0}, zeros<f32>({4, 4}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream.device(), 64);
  wrong(stream, x); // HERE
}
