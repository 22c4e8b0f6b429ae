// SPDX-License-Identifier: Apache-2.0
// SECTILE_DEVICE names no number.
// EXPECT: SECTILE_DEVICE is 'gpu:x', which names no device
// EXPECT: [bad_device]
// SET: SECTILE_DEVICE=gpu:x
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_GPU_PROGRAM() {
  Device::best(); // HERE
}
