// SPDX-License-Identifier: Apache-2.0
// A kernel in a header that several source files include, as users keep theirs.
#pragma once

#include <sectile/sectile.h>

inline constexpr auto addOne = sectile::kernel(
    "add_one", [](sectile::Tensor<const float, 1> x, sectile::Tensor<float, 1> y, sectile::Config &cfg) {
      const int B = cfg.pick("B", {256});
      auto [i] = sectile::grid(y, {B});
      y.store({i}, x.load({i}, {B}) + 1);
    });

void addOneElsewhere(sectile::Stream stream, sectile::Buffer<float> &x, sectile::Buffer<float> &y);
