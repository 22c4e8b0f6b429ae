// SPDX-License-Identifier: Apache-2.0
// A tensor of no element type.
// EXPECT: template constraint failure
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
void program(Tensor<double, 1> X) { (void)X; }
#else
void program(Tensor<long double, 1> X) { (void)X; }
#endif
