// SPDX-License-Identifier: Apache-2.0
// A launch that the driver finds too large.
// EXPECT: threads with 168 registers each and
// EXPECT: bytes of shared memory per block are more than GPU 0 has (65536 registers, 232448 bytes)
// EXPECT: [launch_limits]
// SET: FAKECUDA_FAIL=cuLaunchKernel=701
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  some(Device::gpu(0).stream(), x); // HERE
}
