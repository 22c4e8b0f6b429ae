// SPDX-License-Identifier: Apache-2.0
// A tunable without choices.
// EXPECT: pick:
// EXPECT: BM
// EXPECT: [pick_list]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BM = cfg.pick("BM", {}); // HERE
  X.store({0}, zeros<f32>({BM}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
