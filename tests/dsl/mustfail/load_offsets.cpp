// SPDX-License-Identifier: Apache-2.0
// One offset too few.
// EXPECT: load: one offset per axis of the tensor
#include <sectile/sectile.h>

using namespace sectile;

void program(Tensor<f32, 2> X) {
#ifdef FIXED
  Tile x = X.load({0, 0}, {4, 4});
#else
  Tile x = X.load({0}, {4, 4});
#endif
}
