// SPDX-License-Identifier: Apache-2.0
// A cover of a slice.
// EXPECT: cover:
// EXPECT: [cover_tensor]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BC = cfg.cover("BC", X.slice(0, 0, 8), 0); // HERE
  X.store({0}, zeros<f32>({BC}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
