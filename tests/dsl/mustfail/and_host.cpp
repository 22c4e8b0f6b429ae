// SPDX-License-Identifier: Apache-2.0
// && of a host value and a traced one.
// EXPECT: a Tile has no truth value while tracing
#include <sectile/sectile.h>

using namespace sectile;

void program(Tile x, Tile c, Tensor<f32, 1> X) {
#ifdef FIXED
  Tile y = c & true;
#else
  bool y = true && c;
#endif
}
