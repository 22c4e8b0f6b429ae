// SPDX-License-Identifier: Apache-2.0
// A traced value decides no host branch.
// EXPECT: a Tile has no truth value while tracing
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  when(c, [&] { x = x + 1.0f; });
#else
  if (c)
    x = x + 1.0f;
#endif
}
