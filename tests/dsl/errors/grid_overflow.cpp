// SPDX-License-Identifier: Apache-2.0
// More programs than 64 bits count.
// EXPECT: the grid has over 2^62 programs and the limit is 2147483647
// EXPECT: [grid_limit]
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto cells = kernel("cells", [](Tensor<f32, 2> X) {
  auto [i, j] = grid(X, {16, 16});
  X.store({i, j}, zeros<f32>({16, 16}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream, 16);
  const std::int64_t n = std::int64_t(1) << 40;
  cells(stream, Tensor<f32, 2>(x.data(), {n, n})); // HERE
}
