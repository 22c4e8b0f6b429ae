// SPDX-License-Identifier: Apache-2.0
// Nor its negation.
// EXPECT: ~c for not
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  Tile y = select(~c, x, -x);
#else
  Tile y = select(!c, x, -x);
#endif
}
