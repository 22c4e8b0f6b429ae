// SPDX-License-Identifier: Apache-2.0
// A number set by hand that the kernel does not ask for.
// EXPECT: BN
// EXPECT: the kernel asks for: BM
// EXPECT: [config_unknown]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) { // HERE
  const int BM = cfg.pick("BM", {16, 32});
  X.store({0}, zeros<f32>({BM}));
});

WRONG_PROGRAM(stream) {
  wrong.with(Config().set("BN", 16))(stream, nowhere<f32, 1>({64}));
}
