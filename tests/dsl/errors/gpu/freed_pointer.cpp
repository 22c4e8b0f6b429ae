// SPDX-License-Identifier: Apache-2.0
// A tensor whose buffer is gone.
// EXPECT: argument 0 has dims [16] and points to
// EXPECT: host memory or freed memory
// EXPECT: [host_pointer]
#include "tests/support/ExpectError.h"

#include <optional>

using namespace sectile;

static constexpr auto some = kernel("some", [](Tensor<f32, 1> X) {
  X.store({0}, zeros<f32>({16}));
});

WRONG_GPU_PROGRAM() {
  std::optional<Buffer<float>> x(std::in_place, Device::gpu(0), 16);
  const Tensor<f32, 1> view(*x);
  x.reset();
  some(Device::gpu(0).stream(), view); // HERE
}
