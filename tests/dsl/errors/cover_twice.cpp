// SPDX-License-Identifier: Apache-2.0
// One name for two axes.
// EXPECT: cover: "N" is asked for twice, for different axes or as a pick
// EXPECT: [pick_list]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X, Config &cfg) {
  const int M = cfg.cover("N", X, 0);
  const int N = cfg.cover("N", X, 1); // HERE
  X.store({0, 0}, zeros<f32>({M, N}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
