// SPDX-License-Identifier: Apache-2.0
// A timer read before it was stopped.
// EXPECT: micros() without a finished measurement
// EXPECT: [timer_order]
#include "tests/support/ExpectError.h"

using namespace sectile;

WRONG_PROGRAM(stream) {
  Timer timer(stream);
  timer.start();
  timer.micros(); // HERE
}
