// SPDX-License-Identifier: Apache-2.0
// Operations between when and otherwise.
// EXPECT: otherwise:
// EXPECT: [when_otherwise]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Scalar<i32> n) {
  Tile x = zeros<f32>({16});
  When w = when(n > 0, [&] { x = x + 1.0f; });
  x = x * 2.0f;
  std::move(w).otherwise([&] { x = x + 2.0f; }); // HERE
  X.store({0}, x);
});

WRONG_PROGRAM(stream) {
  wrong(stream, nowhere<f32, 1>({64}), 3);
}
