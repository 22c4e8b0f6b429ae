// SPDX-License-Identifier: Apache-2.0
/// \file The element types of random products, one row each, with the kernel of that row.
#pragma once

#include "tests/generality/RandomProducts.h"

#include <span>

namespace generality {

struct ProductTypes {
  const char *name;
  const char *expect = nullptr; ///< the instruction of products of warpgroups; null: they have none
  bool wholeOnly = false;    ///< integers
  bool sameOperands = true;  ///< A and B have one type
  bool tensorCores = true;
  int bytesA = 0, bytesB = 0, bytesOut = 0;
  sectile::numerics::Outcome (*check)(const Product &, Engine) = nullptr;
  sectile::numerics::Outcome (*repeat)(const Product &, int) = nullptr;
  std::string (*blindSpot)(const Product &) = nullptr;
  std::string (*emit)(const Product &, const char *stage, const char *arch) = nullptr;
};

extern const std::span<const ProductTypes> productTypes;

} // namespace generality
