// SPDX-License-Identifier: Apache-2.0
// A GPU that has faulted before any kernel.
// EXPECT: GPU 0 has faulted with CUDA_ERROR_ILLEGAL_ADDRESS (700)
// EXPECT: no kernel of Sectile was running
// EXPECT: [device_fault]
// SET: FAKECUDA_FAIL=cuStreamSynchronize=700
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0).stream().synchronize(); // HERE
}
