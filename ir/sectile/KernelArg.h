// SPDX-License-Identifier: Apache-2.0
/// \file One argument of a launch as the host gives it.
#pragma once

#include <sectile/DType.h>

#include <array>
#include <cstdint>

namespace sectile {

inline constexpr int maxRank = 5;

/// One argument of a launch as the host gives it: a tensor view (data, dims, strides in elements) or a scalar by
/// value (rank -1, the value's bytes in `scalar`).
struct KernelArg {
  DType dtype = DType::f32;
  int rank = -1;          ///< -1: scalar
  bool readOnly = false;  ///< tensor of const elements
  void *data = nullptr;
  std::array<std::int64_t, maxRank> dims{}, strides{};
  std::uint64_t scalar = 0;
  bool isTensor() const { return rank >= 0; }
};

} // namespace sectile
