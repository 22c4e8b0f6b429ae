// SPDX-License-Identifier: Apache-2.0
// Fewer than no programs taken together.
// EXPECT: raster is set to -1
// EXPECT: sm_90a
// EXPECT: [config_raster]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.raster = -1;
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 1>({64}));
}
