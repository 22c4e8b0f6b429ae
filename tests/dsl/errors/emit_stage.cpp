// SPDX-License-Identifier: Apache-2.0
// A stage that does not exist.
// EXPECT: 'sass' is no stage
// EXPECT: [emit_stage]
// EXPECT: cubin
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto fine = kernel("fine", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  fine.emit("sass", "sm_90a", nowhere<f32, 1>({64})); // HERE
}
