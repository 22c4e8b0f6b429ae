// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks for a product on warpgroups.
// EXPECT: moves whole tiles between threads, and the cluster is set to 4 blocks, with warps=4 cluster=4
// EXPECT: [choose_cluster_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong =
    kernel("wrong", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C, Config &cfg) {
      cfg.warps = 4;
      cfg.cluster = 4;
      Tile acc = zeros<f32>({64, 64});
      for (Tile k : range(0, A.dim(1), 64)) {
        Tile a = A.load({0, k}, {64, 64}), b = B.load({k, 0}, {64, 64});
        acc = mma(a, b, acc); // HERE
      }
      C.store({0, 0}, acc);
    });

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<const bf16, 2>({64, 512}), nowhere<const bf16, 2>({512, 64}),
             nowhere<f32, 2>({64, 64}));
}
