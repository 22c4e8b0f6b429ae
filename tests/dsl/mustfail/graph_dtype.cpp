// SPDX-License-Identifier: Apache-2.0
// A tensor of another element type.
// EXPECT: graph: the tensor's element type differs from the kernel's parameter
#include <sectile/Graph.h>
#include <sectile/sectile.h>

using namespace sectile;

constexpr auto k = kernel("k", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y) { Y.store({0}, X.load({0}, {4})); });
void program(Graph &g, GraphTensor<f32, 1> x, GraphTensor<const f32, 1> r, GraphTensor<bf16, 1> h, GraphTensor<f32, 2> m) {
#ifdef FIXED
  k(x, x);
#else
  k(h);
#endif
}
