// SPDX-License-Identifier: Apache-2.0
/// \file Fusion: two kernels of a chain become one, when that is legal. See FuseKernels.cpp.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Location.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace sectile::passes {

/// What a fusion has left out.
struct Fusion {
  mlir::func::FuncOp kernel;            ///< the new one, in place of both
  std::vector<int64_t> forwarded;       ///< tensors, by number, whose tiles go from the first to the second in registers
  std::vector<int64_t> vanished;        ///< those of them that are no argument any more
  std::vector<int64_t> unrounded;       ///< those whose rounding to 16 bits is left out in between
  std::vector<int64_t> shared;          ///< tensors whose tiles one loop now loads once for both
  bool inside = false;                  ///< programs of the first run where the second loads, as often as it does
};

/// Why there is none, and which line of the user's decides it.
struct FusionRefusal {
  mlir::Location at;
  std::string why;
};

struct FusionOptions {
  bool keepRounding = false;   ///< every value is rounded as it would be in memory
  bool needsForwarding = true; ///< kernels that have no tile in common stay apart
};

/// Fuses `first` with `second`, which would be launched right behind it. Both stay as they are if that is refused.
/// @pre arguments carry tile.chain_tensor, those of tensors tile.chain_lengths; tensors of different numbers share no memory
std::variant<Fusion, FusionRefusal> fuse(mlir::func::FuncOp first, mlir::func::FuncOp second, const FusionOptions &options);

} // namespace sectile::passes
