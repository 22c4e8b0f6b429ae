// SPDX-License-Identifier: Apache-2.0
// A timer stopped before it was started.
// EXPECT: Timer:
// EXPECT: stop() without a start() before it
// EXPECT: [timer_order]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Timer timer(stream);
  timer.stop(); // HERE
}
