// SPDX-License-Identifier: Apache-2.0
// A copy on a stream of another device.
// EXPECT: the buffer is on interpreter and the stream on Fake H200
// EXPECT: [stream_device]
// EXPECT: buffer.device()
#include "tests/support/ExpectError.h"

#include <vector>

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::interpreter(), 4);
  x.copyFrom(std::vector<float>(4), Stream(Device::gpu(0))); // HERE
}
