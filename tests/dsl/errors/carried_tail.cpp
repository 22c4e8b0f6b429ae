// SPDX-License-Identifier: Apache-2.0
// A sum over chunks that would lose earlier sums in the tail.
// EXPECT: =:
// EXPECT: tail
// EXPECT: carried_tail.cpp:
// EXPECT: [carried_extent]
// EXPECT: .fill(0)
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 2> X) {
  auto [r] = grid(X, {16});
  Tile acc = zeros<f32>({16, 16});
  for (Tile k : range(0, X.dim(1), 16))
    acc = acc + X.load({r, k}, {16, 16}); // HERE
  X.store({r, 0}, acc);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 2>({64, 64}));
}
