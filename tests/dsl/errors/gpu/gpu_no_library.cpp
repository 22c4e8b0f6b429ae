// SPDX-License-Identifier: Apache-2.0
// There is no driver library.
// EXPECT: no usable GPU: the CUDA driver library /nowhere/libcuda.so cannot be opened
// EXPECT: [no_gpu]
// EXPECT: Device::interpreter()
// SET: SECTILE_CUDA_LIBRARY=/nowhere/libcuda.so
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
