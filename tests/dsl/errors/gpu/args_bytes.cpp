// SPDX-License-Identifier: Apache-2.0
// More tensors than the parameters of a launch hold.
// EXPECT: the 48 arguments take 4224 bytes of kernel parameters and the limit is 4096
// EXPECT: [args_bytes]
// EXPECT: pass fewer tensors
#include "tests/support/ExpectError.h"

using namespace sectile;

using T = Tensor<const f32, 5>;
static constexpr auto many =
    kernel("many", [](T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T,
                      T, T, T, T, T, T, T, T, T, T) {});

WRONG_GPU_PROGRAM() {
  Buffer<float> x(Device::gpu(0), 1, 1, 1, 1, 1);
  Tensor<const f32, 5> t(x);
  many(Device::gpu(0).stream(), t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, // HERE
       t, t, t, t, t, t, t, t, t, t, t, t);
}
