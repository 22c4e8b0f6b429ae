// SPDX-License-Identifier: Apache-2.0
// One range for two nested loops.
// EXPECT: range:
// EXPECT: [range_once]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Range r(0, 4, 1); // HERE
  for (Tile i : r) {
    X.store({i}, zeros<f32>({16}));
    for (Tile j : r)
      X.store({j}, zeros<f32>({16}));
  }
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
