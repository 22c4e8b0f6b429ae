// SPDX-License-Identifier: Apache-2.0
// A known GPU with a letter that is not known.
// EXPECT: 'sm_90f' is no target
// EXPECT: targets are
// EXPECT: sm_90a
// EXPECT: [emit_arch]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  some.emit("ptx", "sm_90f", nowhere<f32, 1>({64})); // HERE
}
