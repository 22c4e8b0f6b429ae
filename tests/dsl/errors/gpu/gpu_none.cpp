// SPDX-License-Identifier: Apache-2.0
// A driver without GPUs.
// EXPECT: the CUDA driver sees no GPU
// EXPECT: [no_gpu]
// SET: FAKECUDA_DEVICES=0
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::gpu(0); // HERE
}
