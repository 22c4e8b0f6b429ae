// SPDX-License-Identifier: Apache-2.0
// More sizes than axes.
// EXPECT: grid: at most one size per axis of the tensor
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  auto [m] = grid(X, {4});
#else
  auto [m, n] = grid(X, {4, 4});
#endif
}
