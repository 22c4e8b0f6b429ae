// SPDX-License-Identifier: Apache-2.0
// && of traced values.
// EXPECT: && cannot skip its right side in a traced program: write a & b
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  Tile y = c & (x > 0.0f);
#else
  Tile y = c && x > 0.0f;
#endif
}
