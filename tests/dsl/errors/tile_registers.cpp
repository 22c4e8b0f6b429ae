// SPDX-License-Identifier: Apache-2.0
// A tile that one warp cannot hold.
// EXPECT: needs 4096 registers in each of 32 threads for one tile
// EXPECT: 255 per thread, with warps=1
// EXPECT: [check_resources_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X, Config &cfg) {
  cfg.warps = 1;
  X.store({0, 0}, X.load({0, 0}, {256, 512})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 2>({256, 512}));
}
