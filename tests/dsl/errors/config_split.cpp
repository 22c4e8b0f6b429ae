// SPDX-License-Identifier: Apache-2.0
// More blocks per program than a launch can have.
// EXPECT: split is set to 65536
// EXPECT: sm_90a
// EXPECT: [config_split]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  cfg.split = 65536;
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_90a", nowhere<f32, 1>({64}));
}
