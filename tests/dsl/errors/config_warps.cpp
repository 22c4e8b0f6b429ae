// SPDX-License-Identifier: Apache-2.0
// More warps than a block of the target has.
// EXPECT: 64 warps per block, sm_86 runs powers of two from 1 to 32
// EXPECT: BM=16 warps=64
// EXPECT: [select_mma_c2]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.warps = 64;
  X.store({0}, zeros<f32>({cfg.pick("BM", {16, 32})}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_86", nowhere<f32, 1>({64}));
}
