// SPDX-License-Identifier: Apache-2.0
// One offset too many.
// EXPECT: store: one offset per axis of the tensor
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  X.store({0}, x);
#else
  X.store({0, 0}, x);
#endif
}
