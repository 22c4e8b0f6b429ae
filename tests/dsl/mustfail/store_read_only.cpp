// SPDX-License-Identifier: Apache-2.0
// A store to a tensor of const elements.
// EXPECT: store: the tensor is read-only
#include <sectile/sectile.h>

using namespace sectile;

#ifdef FIXED
void program(Tensor<f32, 1> X, Tile x) {
#else
void program(Tensor<const f32, 1> X, Tile x) {
#endif
  X.store({0}, x);
}
