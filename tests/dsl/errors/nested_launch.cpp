// SPDX-License-Identifier: Apache-2.0
// A launch inside a kernel's body.
// EXPECT: launch:
// EXPECT: inner
// EXPECT: [launch_in_trace]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto inner = kernel("inner", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});
static constexpr auto outer = kernel("outer", [](Tensor<f32, 1> X) {
  const Stream stream = Device::interpreter().stream();
  inner(stream, nowhere<f32, 1>({64})); // HERE
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) { outer(stream, nowhere<f32, 1>({64})); }
