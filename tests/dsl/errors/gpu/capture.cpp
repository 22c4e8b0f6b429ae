// SPDX-License-Identifier: Apache-2.0
// A copy during a stream capture.
// EXPECT: cuMemcpyHtoDAsync is not possible during a stream capture
// EXPECT: [capture]
// EXPECT: outside it
// SET: FAKECUDA_FAIL=cuMemcpyHtoDAsync=906
#include "tests/support/ExpectError.h"

#include <vector>

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 16);
  const std::vector<float> host(16);
  x.copyFrom(host); // HERE
}
