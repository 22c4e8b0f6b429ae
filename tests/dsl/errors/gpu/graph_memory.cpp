// SPDX-License-Identifier: Apache-2.0
// Tensors between kernels that the GPU has no memory for.
// EXPECT: bytes for tensors between kernels are more than the device has left
// EXPECT: [out_of_memory]
// SET: FAKECUDA_FREE=1000000
#include "tests/support/ExpectError.h"

#include <sectile/Graph.h>

using namespace sectile;

static constexpr auto copy = kernel("copy", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {16});
  auto [m, n] = grid(X, {B, B});
  Y.store({m, n}, X.load({m, n}, {B, B}));
});

WRONG_GPU_PROGRAM() {
  Stream stream = Device::gpu(0).stream();
  Tensor<f32, 2> x(reinterpret_cast<f32 *>(0x1000), {4096, 4096});
  Graph g("large");
  copy(copy(g.input(x)), g.output(x));
  Composed call = g.build(fuse::none);
  call(stream); // HERE
}
