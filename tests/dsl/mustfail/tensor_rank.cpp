// SPDX-License-Identifier: Apache-2.0
// A tensor of too many axes.
// EXPECT: a Tensor has rank 1 to 5
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
void program(Tensor<f32, 5> X) { (void)X; }
#else
void program(Tensor<f32, 6> X) { (void)X; }
#endif
