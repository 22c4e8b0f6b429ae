// SPDX-License-Identifier: Apache-2.0
// A Config by value would lose what the kernel asks for.
// EXPECT: a kernel takes its Config by reference: Config &cfg
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
constexpr auto k = kernel("k", [](Tensor<f32, 1> X, Config &c) { X.store({0}, zeros<f32>({c.pick("B", {4})})); });
#else
constexpr auto k = kernel("k", [](Tensor<f32, 1> X, Config c) { X.store({0}, zeros<f32>({c.pick("B", {4})})); });
#endif
