// SPDX-License-Identifier: Apache-2.0
// A generic lambda says nothing of its parameters.
// EXPECT: a kernel's lambda has one operator() with typed parameters, no auto
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
constexpr auto k = kernel("k", [](Tensor<f32, 1> X) { X.store({0}, zeros<f32>({4})); });
#else
constexpr auto k = kernel("k", [](auto X) { X.store({0}, zeros<f32>({4})); });
#endif
