// SPDX-License-Identifier: Apache-2.0
// One argument too few.
// EXPECT: no match for call
#include <sectile/sectile.h>

using namespace sectile;

constexpr auto k = kernel("k", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Scalar<i32> n, Const<bool> c) {
  Y.store({0}, X.load({0}, {4}) * cast<f32>(n));
});
void program(Stream s, Buffer<f32> &x, Buffer<bf16> &h, Tensor<const f32, 1> r, Tensor<f32, 2> m) {
#ifdef FIXED
  k(s, r, x, 3, true);
#else
  k(s, x, x, 3);
#endif
}
