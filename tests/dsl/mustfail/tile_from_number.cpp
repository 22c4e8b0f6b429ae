// SPDX-License-Identifier: Apache-2.0
// A Tile from a host number has no dtype.
// EXPECT: a Tile needs a dtype: write scalar<i32>(0)
#include <sectile/sectile.h>

using namespace sectile;

void program() {
#ifdef FIXED
  Tile n = scalar<i32>(0);
#else
  Tile n = 0;
#endif
  (void)n;
}
