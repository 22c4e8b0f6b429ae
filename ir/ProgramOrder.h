// SPDX-License-Identifier: Apache-2.0
/// \file The order in which the blocks of a persistent kernel take programs of different length.
///
/// On the function: [axis, descending]. The length depends on the place along one axis of the iteration space, which changes
/// slowest, the longest first; within sections of the other axes, see MakePersistent. Where there are as many blocks as programs,
/// one section has all of them, and the block of a program is (its place along the axis, longest first) * others + (its number
/// among the others, in row-major order).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace sectile::tgpu {

inline constexpr llvm::StringLiteral programOrderAttr = "tgpu.program_order";

/// That block, for a program at `number` of an iteration space of `programs`.
inline int64_t blockInOrder(llvm::ArrayRef<int64_t> number, llvm::ArrayRef<int64_t> programs, int64_t axis, bool descending) {
  int64_t others = 1, other = 0;
  for (auto [d, count] : llvm::enumerate(programs))
    if (int64_t(d) != axis) {
      others *= count;
      other = other * count + number[d];
    }
  const int64_t place = number[size_t(axis)];
  return (descending ? programs[size_t(axis)] - 1 - place : place) * others + other;
}

} // namespace sectile::tgpu
