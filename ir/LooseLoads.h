// SPDX-License-Identifier: Apache-2.0
/// \file Loads whose elements outside of their bounds may be anything: vectors that a bound cuts are moved whole.
///
/// A vector that holds an element of the tensor may reach over the first or the last element of a row, into the row before or
/// behind it. What it brings from there is not used. Where it would reach over the tensor itself, its elements that exist are
/// moved alone; that is decided for all vectors of a tile at once.
#pragma once

#include "ir/AccessPlan.h"

namespace sectile::tgpu {

/// unit, on a tgpu.global_load: nothing depends on what the result has outside of the bounds. ResolveTails gives it where bounds
/// may cut vectors.
inline constexpr llvm::StringLiteral looseAttr = "tgpu.loose";

/// One axis of a tile, as an access places it in a tensor.
struct LooseAxis {
  int64_t offset, lo, hi; ///< lo <= coordinate < hi exist
  int64_t dim, stride;    ///< of the tensor
};
/// Whether all vectors of `width` elements along `run` that hold an element lie in the tensor. Code generation computes the same.
inline bool looseVectorsInside(llvm::ArrayRef<LooseAxis> axes, size_t run, int64_t width) {
  int64_t first = 0, end = 1, last = 0;
  for (auto [d, a] : llvm::enumerate(axes)) {
    const int64_t lo = d == run ? a.lo & -width : a.lo, hi = d == run ? (a.hi + width - 1) & -width : a.hi;
    if (a.stride < 0)
      return false;
    first += (a.offset + lo) * a.stride;
    last += (a.offset + hi - 1) * a.stride;
    end += (a.dim - 1) * a.stride;
  }
  return first >= 0 && last < end;
}

} // namespace sectile::tgpu
