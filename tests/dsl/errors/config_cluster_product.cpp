// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks for a kernel whose tiles go from thread to thread.
// EXPECT: moves whole tiles between threads, and the cluster is set to 2 blocks, with cluster=2
// EXPECT: [choose_cluster_c3]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X, Config &cfg) {
  cfg.cluster = 2;
  X.store({0, 0}, t(X.load({0, 0}, {64, 64}))); // HERE
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 2>({64, 64}));
}
