// SPDX-License-Identifier: Apache-2.0
// One name for two tunables.
// EXPECT: pick:
// EXPECT: {16, 32}
// EXPECT: {64}
// EXPECT: [pick_list]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int a = cfg.pick("BM", {16, 32});
  const int b = cfg.pick("BM", {64}); // HERE
  X.store({0}, zeros<f32>({a}) + zeros<f32>({b}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
