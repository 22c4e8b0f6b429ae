// SPDX-License-Identifier: Apache-2.0
// Too few values for a matrix of blocks.
// EXPECT: quantise: 5 values for 2 rows of 3
// EXPECT: [block_size]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  quantise(BlockFormat::mxfp4, std::vector<float>(5), 2, 3); // HERE
}
