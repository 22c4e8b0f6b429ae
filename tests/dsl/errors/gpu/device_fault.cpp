// SPDX-License-Identifier: Apache-2.0
// A kernel that has written where it may not.
// EXPECT: GPU 0 has faulted with CUDA_ERROR_ILLEGAL_ADDRESS (700)
// EXPECT: kernels launched and not known to have finished, newest last: some
// EXPECT: [device_fault]
// EXPECT: SECTILE_CHECK=pointers
// LAUNCHES: 1
#include "tests/support/ExpectError.h"

#include <cstdlib>

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  Stream stream = Device::gpu(0).stream();
  some(stream, x);
  setenv("FAKECUDA_FAIL", "cuStreamSynchronize=700", 1);
  stream.synchronize(); // HERE
}
