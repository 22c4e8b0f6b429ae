// SPDX-License-Identifier: Apache-2.0
// A bound that is no index.
// EXPECT: range:
// EXPECT: i32
// EXPECT: [range_index]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  for (Tile i : range(0, n)) // HERE
    X.store({i}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
