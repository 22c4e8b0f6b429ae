// SPDX-License-Identifier: Apache-2.0
// A kernel's lambda captures nothing.
// EXPECT: a kernel's lambda captures nothing
#include <sectile/sectile.h>

using namespace sectile;

void program(int n) {
#ifdef FIXED
  auto k = kernel("k", [](Tensor<f32, 1> X, Scalar<i32> n) { X.store({0}, cast<f32>(full<i32>({4}, n))); });
#else
  auto k = kernel("k", [n](Tensor<f32, 1> X) { X.store({0}, full<f32>({4}, n)); });
#endif
  (void)k;
}
