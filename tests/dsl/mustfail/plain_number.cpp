// SPDX-License-Identifier: Apache-2.0
// A plain number would be frozen while tracing.
// EXPECT: a kernel's parameter is a Tensor<T, R>, a Scalar<T> (run-time number), a Const<T>
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
constexpr auto k = kernel("k", [](Tensor<f32, 1> X, Scalar<float> s) { X.store({0}, full<f32>({4}, s)); });
#else
constexpr auto k = kernel("k", [](Tensor<f32, 1> X, float s) { X.store({0}, full<f32>({4}, s)); });
#endif
void program(Stream s, Buffer<f32> &x) { k(s, x, 1.0f); }
