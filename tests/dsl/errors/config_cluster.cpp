// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks on a target that has none.
// EXPECT: a cluster of 4 blocks, sm_86 has no clusters, with cluster=4
// EXPECT: [choose_cluster_c2]
// EXPECT: 0 or 1
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.cluster = 4;
  X.store({0}, X.load({0}, {1024}) * 2.0f);
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_86", nowhere<f32, 1>({1024}));
}
