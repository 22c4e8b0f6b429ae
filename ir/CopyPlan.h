// SPDX-License-Identifier: Apache-2.0
/// \file How the threads of the producer share the copies of a tgpu.async_load. One plan for all: a pass asks for it, code
/// generation issues it.
#pragma once

#include "ir/TgpuDialect.h"

#include <optional>

namespace sectile::tgpu {

/// Threads that copy: the producer's warpgroup.
inline constexpr int64_t copyThreads = 128;

/// A panel's rows are copied in steps of `rowsPerStep`. In each step thread t moves piece t % `pieces` of row t / `pieces`, if
/// the panel has so many rows.
struct CopyPlan {
  int64_t pieces = 1;      ///< copies that make up a row of a panel
  int64_t rowsPerStep = 1; ///< a power of two
  int64_t steps = 1;       ///< per panel
  int64_t panels = 1, rows = 1;

  /// Where a row lies along an axis of the tensor: (row of the thread / divisor) % modulus + first[step].
  struct Axis {
    int64_t axis = 0;
    int64_t divisor = 1, modulus = 0; ///< modulus 0: none
    llvm::SmallVector<int64_t> first;
  };
  llvm::SmallVector<Axis> axes; ///< those of rows that are longer than 1

  int64_t copies() const { return steps * panels; }
  /// The last step has fewer rows than threads for them.
  bool isCut() const { return rows % rowsPerStep != 0; }

  /// None if no step of rows is one of coordinates.
  static std::optional<CopyPlan> make(MapAttr map, BufferType buffer, int64_t copyBytes);
};

} // namespace sectile::tgpu
