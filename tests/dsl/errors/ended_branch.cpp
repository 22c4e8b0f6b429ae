// SPDX-License-Identifier: Apache-2.0
// A write to a Tile declared inside a branch that has ended.
// EXPECT: =:
// EXPECT: [cell_ended]
#include "tests/support/ExpectError.h"

#include <optional>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  std::optional<Tile> x;
  when(n > 0, [&] { x.emplace(scalar<f32>(1.0f)); });
  *x = scalar<f32>(2.0f); // HERE
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
