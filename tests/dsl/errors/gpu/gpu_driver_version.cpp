// SPDX-License-Identifier: Apache-2.0
// A driver that supports an older CUDA only.
// EXPECT: no usable GPU: the CUDA driver supports CUDA 11.0
// EXPECT: at least 12.0
// EXPECT: [driver_too_old]
// EXPECT: update the NVIDIA driver
// SET: FAKECUDA_VERSION=11000
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
