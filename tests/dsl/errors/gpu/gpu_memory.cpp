// SPDX-License-Identifier: Apache-2.0
// A buffer larger than what the GPU has free.
// EXPECT: 1073741824 bytes for dims [268435456] are more than GPU 0 has free (1000000 of
// EXPECT: [out_of_memory]
// EXPECT: free others
// SET: FAKECUDA_FREE=1000000
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 1 << 28); // HERE
}
