// SPDX-License-Identifier: Apache-2.0
// The condition of loopWhile is a Tile.
// EXPECT: loopWhile: the condition is a lambda that returns a Tile
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  loopWhile([&] { return c; }, [&] { x = x + 1; });
#else
  loopWhile([&] { return "yes"; }, [&] { x = x + 1; });
#endif
}
