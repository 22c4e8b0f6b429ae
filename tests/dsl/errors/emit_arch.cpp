// SPDX-License-Identifier: Apache-2.0
// A target that does not exist.
// EXPECT: 'sm_75' is no target
// EXPECT: targets are sm_80, sm_86, sm_89, sm_90a
// EXPECT: [emit_arch]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  some.emit("ptx", "sm_75", nowhere<f32, 1>({64})); // HERE
}
