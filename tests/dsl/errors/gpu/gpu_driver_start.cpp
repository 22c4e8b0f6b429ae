// SPDX-License-Identifier: Apache-2.0
// A driver that does not start.
// EXPECT: the CUDA driver does not start: unknown CUDA error (999)
// EXPECT: [no_gpu]
// SET: FAKECUDA_FAIL=cuInit=999
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
