// SPDX-License-Identifier: Apache-2.0
// A stream of another GPU.
// EXPECT: Stream::wrap:
// EXPECT: the stream belongs to GPU 1 and the device is GPU 0
// EXPECT: [stream_device]
// EXPECT: Device::gpu(1)
// SET: FAKECUDA_DEVICES=2
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Stream other(Device::gpu(1));
  Stream::wrap(Device::gpu(0), other.native()); // HERE
}
