// SPDX-License-Identifier: Apache-2.0
// A GPU older than every target.
// EXPECT: GPU 0 (Fake H200) has compute capability 7.0
// EXPECT: targets are sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a
// EXPECT: [gpu_unsupported]
// EXPECT: Device::interpreter()
// SET: FAKECUDA_MAJOR=7
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
