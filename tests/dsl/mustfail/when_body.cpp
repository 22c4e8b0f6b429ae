// SPDX-License-Identifier: Apache-2.0
// A branch takes no parameters.
// EXPECT: when takes a lambda without parameters
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  when(c, [&] { x = x + 1; });
#else
  when(c, [&](int i) { x = x + i; });
#endif
}
