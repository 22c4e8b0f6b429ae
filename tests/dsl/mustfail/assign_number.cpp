// SPDX-License-Identifier: Apache-2.0
// An assignment of a host number.
// EXPECT: a Tile needs a dtype
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  x = scalar<f32>(0.0f);
#else
  x = 0.0f;
#endif
}
