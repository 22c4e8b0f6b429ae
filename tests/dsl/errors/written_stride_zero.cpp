// SPDX-License-Identifier: Apache-2.0
// A tensor that is written and whose rows are all one place in memory.
// EXPECT: argument 0 has dims
// EXPECT: axis 0 has stride 0
// EXPECT: its 8 elements
// EXPECT: [arg_strides]
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  X.store({0, 0}, zeros<f32>({8, 4}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream.device(), 4);
  wrong(stream, Tensor<f32, 2>(x.data(), {8, 4}, {0, 1})); // HERE
}
