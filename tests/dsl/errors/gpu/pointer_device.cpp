// SPDX-License-Identifier: Apache-2.0
// Memory of another GPU.
// EXPECT: argument 0 is in the memory of GPU 1 and the launch is on GPU 0
// EXPECT: [pointer_device]
// SET: FAKECUDA_DEVICES=2
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(1), 16);
  some(Device::gpu(0).stream(), x); // HERE
}
