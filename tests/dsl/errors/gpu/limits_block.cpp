// SPDX-License-Identifier: Apache-2.0
// A GPU that runs fewer threads per block.
// EXPECT: the schedule has
// EXPECT: threads per block and GPU 0 allows 16
// EXPECT: [launch_limits]
// EXPECT: fewer warps
// SET: FAKECUDA_BLOCK_THREADS=16
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  some(Device::gpu(0).stream(), x); // HERE
}
