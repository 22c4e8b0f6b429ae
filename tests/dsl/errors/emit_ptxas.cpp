// SPDX-License-Identifier: Apache-2.0
// A cubin without ptxas.
// EXPECT: no ptxas was found to assemble a cubin
// EXPECT: [emit_ptxas]
// EXPECT: SECTILE_PTXAS
// SET: SECTILE_PTXAS=none
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) { // HERE
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  some.emit("cubin", "sm_90a", nowhere<f32, 1>({64}));
}
