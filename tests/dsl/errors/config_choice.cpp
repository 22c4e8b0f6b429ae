// SPDX-License-Identifier: Apache-2.0
// A choice between rule, never and always that is none of them.
// EXPECT: snake is set to 3
// EXPECT: sm_90a
// EXPECT: [config_choice]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.snake = 3;
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 1>({64}));
}
