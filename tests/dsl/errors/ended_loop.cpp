// SPDX-License-Identifier: Apache-2.0
// A Tile declared inside a loop that has ended.
// EXPECT: store:
// EXPECT: declared at ended_loop.cpp:
// EXPECT: [cell_ended]
#include "tests/support/ExpectError.h"

#include <optional>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  std::optional<Tile> last;
  for (Tile i : range(0, 4))
    last.emplace(X.load({i}, {16}));
  X.store({0}, *last); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}));
}
