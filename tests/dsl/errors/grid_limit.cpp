// SPDX-License-Identifier: Apache-2.0
// More programs than a launch can have.
// EXPECT: the grid has 2147483648 programs and the limit is 2147483647
// EXPECT: [grid_limit]
// EXPECT: larger tiles
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto rows = kernel("rows", [](Tensor<f32, 1> X) {
  auto [i] = grid(X, {16});
  X.store({i}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, 16);
  rows(stream, Tensor<f32, 1>(x.data(), {std::int64_t(1) << 35})); // HERE
}
