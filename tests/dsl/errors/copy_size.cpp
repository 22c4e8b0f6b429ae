// SPDX-License-Identifier: Apache-2.0
// A copy of too few elements.
// EXPECT: 12 bytes of host elements are given and the buffer holds 16 bytes
// EXPECT: [copy_size]
// EXPECT: size()
#include "tests/support/ExpectError.h"

#include <vector>

using namespace sectile;

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, 4);
  x.copyFrom(std::vector<float>(3)); // HERE
}
