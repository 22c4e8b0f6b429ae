// SPDX-License-Identifier: Apache-2.0
/// \file The most registers that tiles need at once in each thread of a kernel in final form.
#pragma once

#include "passes/Support.h"

namespace sectile::passes {

/// 16-bit words of a thread, two to a register: elements of 16 bits lie in pairs. Repeated and constant tiles are names of other
/// registers, a tile that a reduction takes up element by element as it is made has none, and of what products of warps read from shared
/// memory there is one step along K at a time.
struct RegisterPeak {
  int64_t halves = 0;
  mlir::Operation *at = nullptr; ///< where they are alive
  int64_t registers() const { return (halves + 1) / 2; }
};

/// Of the blocks of a region, those that it contains included. `initialApart`: what a loop starts with keeps registers of its own beside
/// what the loop carries; else it becomes the first of what is carried.
RegisterPeak registerPeak(mlir::Region &region, LayoutCache &layouts, bool initialApart);

} // namespace sectile::passes
