// SPDX-License-Identifier: Apache-2.0
/// \file Remarks: what a pass left slower than it could be, where in the user's source, and why. They travel with the
/// function, for those who explain a kernel; no pass decides by them.
#pragma once

#include "ir/TgpuDialect.h"
#include "ir/base/MmaTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace sectile::passes {

/// On the function: [{at = loc(..), pass = "StoreBoxes", text = ".."}, ..].
inline constexpr llvm::StringLiteral remarksAttr = "tgpu.remarks";

struct Remark {
  std::string pass;
  mlir::Location at;
  std::string text;
};

/// Adds a remark, unless the function has it.
void addRemark(mlir::func::FuncOp func, llvm::StringRef pass, mlir::Location at, const llvm::Twine &text);
/// All of them, in the order in which they were added.
llvm::SmallVector<Remark> remarksOf(mlir::func::FuncOp func);

/// On the function: ["prefetch: ..", ..], what passes chose that the source does not show.
inline constexpr llvm::StringLiteral choicesAttr = "tgpu.choices";
void noteChoice(mlir::func::FuncOp func, const llvm::Twine &text);

// --- why not the fast path: the first of a pass's conditions that does not hold
// ---------------------------------------------------------------------------------------------------

/// SelectMma, on a product that has no asynchronous instruction where the target has some, or no matrix instruction at
/// all. `row`: what it has, null for multiply-adds.
void remarkProduct(mlir::func::FuncOp func, tileir::MmaOp op, const Target &target, const MmaRow *row, bool pipelined,
                   int warps);
/// StageOperands, when it is through: operands of asynchronous products that threads load, compute or copy.
void remarkOperands(mlir::func::FuncOp func);
/// StoreBoxes, when it is through: tiles that threads store in a kernel with asynchronous products.
void remarkStores(mlir::func::FuncOp func);
/// SpecialiseWarps, when it is through: reads of memory that decide in each trip whether there is a product.
void remarkReads(mlir::func::FuncOp func);

} // namespace sectile::passes
