// SPDX-License-Identifier: Apache-2.0
// Host memory given to a GPU.
// EXPECT: argument 0 has dims [16] and points to
// EXPECT: host memory or freed memory, and the launch is on GPU 0
// EXPECT: [host_pointer]
// EXPECT: Buffer
#include "tests/support/ExpectError.h"

#include <vector>

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  std::vector<float> host(16);
  some(Device::gpu(0).stream(), Tensor<f32, 1>(host.data(), {16})); // HERE
}
