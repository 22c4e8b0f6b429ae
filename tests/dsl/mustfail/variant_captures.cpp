// SPDX-License-Identifier: Apache-2.0
// A variant captures nothing.
// EXPECT: no matching function for call to
#include <sectile/sectile.h>

using namespace sectile;

void program(int n) {
#ifdef FIXED
  constexpr auto v = [](Tile x) { return x + 1; };
#else
  auto v = [n](Tile x) { return x + n; };
#endif
  auto k = kernel<v>("k", [](Tensor<f32, 1> X) { X.store({0}, zeros<f32>({4})); });
  (void)k;
  (void)n;
}
