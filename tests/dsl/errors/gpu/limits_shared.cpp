// SPDX-License-Identifier: Apache-2.0
// A GPU with less shared memory than its target says.
// EXPECT: the tiles need
// EXPECT: bytes of shared memory per block and GPU 0 has 1024
// EXPECT: [launch_limits]
// EXPECT: smaller tiles
// SET: FAKECUDA_SHARED=1024
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto product = kernel("product", [](Tensor<const f16, 2> A, Tensor<const f16, 2> B, Tensor<f32, 2> C) {
  auto [m, n] = grid(C, {64, 64});
  C.store({m, n}, mma(A.load({m, 0}, {64, 64}), B.load({0, n}, {64, 64})));
});

WRONG_GPU_PROGRAM() {
  Buffer<f16> a(Device::gpu(0), 64, 64), b(Device::gpu(0), 64, 64);
  Buffer<float> c(Device::gpu(0), 64, 64);
  product(Device::gpu(0).stream(), a, b, c); // HERE
}
