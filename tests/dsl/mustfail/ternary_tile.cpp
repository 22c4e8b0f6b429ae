// SPDX-License-Identifier: Apache-2.0
// Nor the conditional operator.
// EXPECT: a Tile has no truth value while tracing
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  Tile y = select(c, x, -x);
#else
  Tile y = c ? x : -x;
#endif
}
