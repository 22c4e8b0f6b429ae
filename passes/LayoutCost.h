// SPDX-License-Identifier: Apache-2.0
/// \file What the layouts of AssignLayouts cost: its own account, before later passes merge or move anything.
#pragma once

#include "ir/TgpuDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace sectile::passes {

/// On the function: [{at = loc(..), op = "convert_layout", bytes = .., ..}, ..], as LayoutCost.
inline constexpr llvm::StringLiteral layoutCostAttr = "tgpu.layout_cost";

/// Of one access to global memory, or of one conversion that the choice made necessary.
struct LayoutCost {
  mlir::Location at;
  std::string op;           ///< "global_load", "convert_layout"
  std::string way;          ///< of a conversion: "rename_registers", "shuffle_lanes", "shared_memory"
  int64_t bytes = 0;        ///< of a conversion through shared memory: written and read, each time
  int64_t vectorBytes = 0;  ///< of an access: of one thread in one instruction
  int64_t sectors = 0;      ///< of an access: 32-byte sectors that a whole warp touches in one instruction
  bool inLoop = false;
};

/// Puts the costs of the layouts that all tiles have on the function.
void stateLayoutCost(mlir::func::FuncOp func);
llvm::SmallVector<LayoutCost> layoutCostOf(mlir::func::FuncOp func);

} // namespace sectile::passes
