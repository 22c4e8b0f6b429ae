// SPDX-License-Identifier: Apache-2.0
// A library that lacks the functions of a driver.
// EXPECT: the CUDA driver library libm.so.6 has no cu
// EXPECT: the driver is too old
// EXPECT: [driver_too_old]
// SET: SECTILE_CUDA_LIBRARY=libm.so.6
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
