// SPDX-License-Identifier: Apache-2.0
// More stages of pipelined loads than code is made for.
// EXPECT: stages is set to 4
// EXPECT: sm_90a
// EXPECT: [config_stages]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.stages = 4;
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 1>({64}));
}
