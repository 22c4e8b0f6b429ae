// SPDX-License-Identifier: Apache-2.0
// A GPU that is not there.
// EXPECT: GPU 2 is asked for and there are 2
// EXPECT: [gpu_range]
// EXPECT: use 0 to 1
// SET: FAKECUDA_DEVICES=2
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(2); // HERE
}
