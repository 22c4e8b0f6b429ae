// SPDX-License-Identifier: Apache-2.0
// As many names as sizes.
// EXPECT: structured binding
#include <sectile/sectile.h>

using namespace sectile;

void program(Tensor<f32, 2> X) {
#ifdef FIXED
  auto [m, n] = grid(X, {4, 4});
#else
  auto [m, n] = grid(X, {4});
#endif
}
