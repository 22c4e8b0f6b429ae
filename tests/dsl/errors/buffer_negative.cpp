// SPDX-License-Identifier: Apache-2.0
// A buffer with a negative length.
// EXPECT: dims [4, -1] hold the negative length -1
// EXPECT: [buffer_dims]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, 4, -1); // HERE
}
