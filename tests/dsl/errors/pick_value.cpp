// SPDX-License-Identifier: Apache-2.0
// A value set by hand that is no choice.
// EXPECT: pick:
// EXPECT: 24
// EXPECT: {16, 32}
// EXPECT: [pick_value]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BM = cfg.pick("BM", {16, 32}); // HERE
  X.store({0}, zeros<f32>({BM}));
});

WRONG_PROGRAM(stream) {
  wrong.with(Config().set("BM", 24))(stream, nowhere<f32, 1>({64}));
}
