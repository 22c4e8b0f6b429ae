// SPDX-License-Identifier: Apache-2.0
// A value set by hand that does not cover the axis.
// EXPECT: cover:
// EXPECT: 32
// EXPECT: 64
// EXPECT: [cover_value]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BC = cfg.cover("BC", X, 0); // HERE
  X.store({0}, zeros<f32>({BC}));
});

WRONG_PROGRAM(stream) {
  wrong.with(Config().set("BC", 32))(stream, nowhere<f32, 1>({64}));
}
