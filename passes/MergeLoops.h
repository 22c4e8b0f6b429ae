// SPDX-License-Identifier: Apache-2.0
/// \file Loops of a kernel over one range that load tiles in common become one loop.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SmallVector.h"

namespace sectile::passes {

/// Merges loops in the body of a kernel whose trips are the same numbers, and of which the later one neither uses results of the
/// earlier one nor memory that is written from there on. Gives the tensors of which a merged loop loads a tile once that
/// two loops have loaded. Loops that have no load in common stay apart.
/// @pre arguments are tensors that share no memory
llvm::SmallVector<mlir::Value> mergeLoops(mlir::func::FuncOp kernel);

} // namespace sectile::passes
