// SPDX-License-Identifier: Apache-2.0
// A value set by hand that covered the axis of the launch before, of the same bucket, and does not cover this one.
// EXPECT: cover:
// EXPECT: 540
// EXPECT: 560
// EXPECT: [cover_value]
#include "tests/support/ExpectError.h"

using namespace sectile;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int BC = cfg.cover("BC", X, 0); // HERE
  X.store({0}, zeros<f32>({BC}));
});

WRONG_PROGRAM(stream) {
  Buffer<f32> x(stream, 560);
  auto set = wrong.with(Config().set("BC", 540));
  set(stream, Tensor<f32, 1>(x.data(), {530}));
  set(stream, Tensor<f32, 1>(x.data(), {560}));
}
