// SPDX-License-Identifier: Apache-2.0
// More slots of pipelined loads than code can have.
// EXPECT: stages is set to 65
// EXPECT: at most 64
// EXPECT: [config_stages]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.stages = 65;
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 1>({64}));
}
