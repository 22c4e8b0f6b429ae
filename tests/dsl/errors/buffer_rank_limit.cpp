// SPDX-License-Identifier: Apache-2.0
// A buffer of rank 6.
// EXPECT: Buffer:
// EXPECT: rank 6 is over the limit of 5
// EXPECT: [buffer_dims]
#include "tests/support/ExpectError.h"

#include <span>
#include <vector>

using namespace sectile;

WRONG_PROGRAM(stream) {
  const std::vector<std::int64_t> dims(6, 2);
  Buffer<float> x(stream, std::span<const std::int64_t>(dims)); // HERE
}
