// SPDX-License-Identifier: Apache-2.0
// SECTILE_PTXAS names no program.
// EXPECT: SECTILE_PTXAS=/nowhere/ptxas cannot be used: it is not an executable file
// EXPECT: [bad_ptxas]
// SET: SECTILE_PTXAS=/nowhere/ptxas
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) { // HERE
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  some(Device::gpu(0).stream(), x);
}
