// SPDX-License-Identifier: Apache-2.0
// The same in a loopWhile.
// EXPECT: =:
// EXPECT: tail
// EXPECT: [carried_extent]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  Tile acc = zeros<f32>({16}), k = scalar<Index>(0);
  loopWhile([&] { return k < X.dim(0); }, [&] {
    acc = acc + X.load({k}, {16}); // HERE
    k += 16;
  });
  X.store({0}, acc);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
