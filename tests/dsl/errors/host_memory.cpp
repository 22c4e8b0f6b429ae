// SPDX-License-Identifier: Apache-2.0
// A buffer larger than the host.
// EXPECT: 1152921504606846976 bytes for dims [288230376151711744] are more than the host gives
// EXPECT: [out_of_memory]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, std::int64_t(1) << 58); // HERE
}
