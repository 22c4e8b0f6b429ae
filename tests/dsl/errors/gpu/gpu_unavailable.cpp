// SPDX-License-Identifier: Apache-2.0
// A GPU that another process has taken.
// EXPECT: GPU 0 is taken by another process
// EXPECT: [gpu_unavailable]
// EXPECT: nvidia-smi -c
// SET: FAKECUDA_FAIL=cuDevicePrimaryCtxRetain=46
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
