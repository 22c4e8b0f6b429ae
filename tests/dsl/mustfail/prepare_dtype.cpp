// SPDX-License-Identifier: Apache-2.0
// The same for prepare.
// EXPECT: launch: the buffer's element type differs from the kernel's parameter
#include <sectile/sectile.h>

using namespace sectile;

constexpr auto k = kernel("k", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Scalar<i32> n, Const<bool> c) {
  Y.store({0}, X.load({0}, {4}) * cast<f32>(n));
});
void program(Stream s, Buffer<f32> &x, Buffer<bf16> &h, Tensor<const f32, 1> r, Tensor<f32, 2> m) {
#ifdef FIXED
  k.prepare(x, x, 3, true)(s);
#else
  k.prepare(h, x, 3, true)(s);
#endif
}
