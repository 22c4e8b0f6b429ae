// SPDX-License-Identifier: Apache-2.0
// A Tile on the host.
// EXPECT: outside the body of a kernel
// EXPECT: [no_trace]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

WRONG_PROGRAM(stream) {
  Tile x = scalar<f32>(1.0f); // HERE
}
