// SPDX-License-Identifier: Apache-2.0
// A GPU without memory for a stream.
// EXPECT: GPU 0 has no memory left for cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)
// EXPECT: [out_of_memory]
// SET: FAKECUDA_FAIL=cuStreamCreate=2
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Stream stream(Device::gpu(0)); // HERE
}
