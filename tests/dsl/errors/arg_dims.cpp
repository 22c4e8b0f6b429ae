// SPDX-License-Identifier: Apache-2.0
// A tensor with a negative length.
// EXPECT: launch:
// EXPECT: argument 0 has dims [-4], and the length of axis 0 is negative
// EXPECT: [arg_dims]
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, 16);
  some(stream, Tensor<f32, 1>(x.data(), {-4})); // HERE
}
