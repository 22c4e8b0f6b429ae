// SPDX-License-Identifier: Apache-2.0
// Sums of a product that one warp cannot hold by far.
// EXPECT: registers in each of 32 threads for sums of products and what loops carry, sm_90a has 255 per thread
// EXPECT: with warps=1
// EXPECT: [check_resources_c4]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C, Config &cfg) {
  cfg.warps = 1;
  auto [m, n] = grid(C, {192, 160});
  Tile sum = zeros<f32>({192, 160});
  for (Tile k : range(0, A.dim(1), 64))
    sum = mma(A.load({m, k}, {192, 64}), B.load({k, n}, {64, 160}), sum); // HERE
  C.store({m, n}, sum);
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<const bf16, 2>({256, 512}), nowhere<const bf16, 2>({512, 512}), nowhere<f32, 2>({256, 512}));
}
