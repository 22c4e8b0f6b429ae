// SPDX-License-Identifier: Apache-2.0
// Registers that leave no room for the threads.
// EXPECT: the schedule has
// EXPECT: threads per block and its 168 registers per thread leave room for 16
// EXPECT: [launch_limits]
// SET: FAKECUDA_THREADS=16
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  some(Device::gpu(0).stream(), x); // HERE
}
