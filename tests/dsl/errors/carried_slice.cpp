// SPDX-License-Identifier: Apache-2.0
// A sum over slices of moving length.
// EXPECT: =:
// EXPECT: tail
// EXPECT: [carried_extent]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile acc = zeros<f32>({16});
  for (Tile k : range(0, 4))
    acc = acc + X.slice(0, 0, k * 4).load({0}, {16}); // HERE
  X.store({0}, acc);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
