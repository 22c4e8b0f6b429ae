// SPDX-License-Identifier: Apache-2.0
// A buffer of more bytes than there are numbers.
// EXPECT: dims [4611686018427387904] of 4-byte elements are more than 2^63-1 bytes
// EXPECT: [buffer_dims]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, std::int64_t(1) << 62); // HERE
}
