// SPDX-License-Identifier: Apache-2.0
// A tile without lanes.
// EXPECT: load:
// EXPECT: [load_c4]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  const int none = 0;
  X.store({0}, X.load({0}, {none})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
