// SPDX-License-Identifier: Apache-2.0
// A driver that does not take the code.
// EXPECT: the driver refuses the code for sm_90a
// EXPECT: its assembler says: ptxas fatal: fake
// EXPECT: [load_failed]
// EXPECT: SECTILE_PTXAS
// SET: FAKECUDA_FAIL=ptx=222
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  some(Device::gpu(0).stream(), x); // HERE
}
