// SPDX-License-Identifier: Apache-2.0
// SECTILE_DEVICE names no device.
// EXPECT: SECTILE_DEVICE is 'tpu:0', which names no device
// EXPECT: [bad_device]
// EXPECT: gpu:N
// SET: SECTILE_DEVICE=tpu:0
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::best(); // HERE
}
