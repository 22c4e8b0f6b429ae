// SPDX-License-Identifier: Apache-2.0
// A cover of an axis too long for any tile.
// EXPECT: cover:
// EXPECT: too long
// EXPECT: [cover_value]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BC = cfg.cover("BC", X, 0); // HERE
  X.store({0}, zeros<f32>({BC}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({std::int64_t(1) << 40}));
}
