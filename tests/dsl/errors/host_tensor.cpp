// SPDX-License-Identifier: Apache-2.0
// A view made inside the body.
// EXPECT: load:
// EXPECT: [tile_trace]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tensor<f32, 1> host(nullptr, {64});
  X.store({0}, host.load({0}, {16})); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
