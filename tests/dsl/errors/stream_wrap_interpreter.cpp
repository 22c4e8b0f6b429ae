// SPDX-License-Identifier: Apache-2.0
// A CUDA stream for the interpreter.
// EXPECT: Stream::wrap:
// EXPECT: a CUDA stream cannot be a stream of the interpreter
// EXPECT: [stream_device]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Stream::wrap(Device::interpreter(), nullptr); // HERE
}
