// SPDX-License-Identifier: Apache-2.0
/// \file The part of a program that decides when and from where some of its ops read: their operands, what those are
/// computed from, and the loops and branches around them. One thread can run it beside the program.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace sectile::passes {

class RoleSlice {
public:
  /// Adds an op and everything it depends on. False if one thread of its own cannot compute that: it would need
  /// tiles, or memory that the kernel may have written. The slice is then as it was.
  bool add(mlir::Operation *op);
  bool contains(mlir::Operation *op) const { return ops.contains(op); }

  /// Copies the slice of a block: ops that `emit` handles (it returns true) are its own affair, the others are
  /// cloned. Loops and branches are made anew with the slice of their bodies and only the values that are needed.
  void copy(mlir::Block &from, mlir::OpBuilder &b, mlir::IRMapping &map,
            llvm::function_ref<bool(mlir::Operation *, mlir::OpBuilder &, mlir::IRMapping &)> emit) const;

private:
  bool markValue(mlir::Value v);
  bool markOp(mlir::Operation *op);
  void copyOp(mlir::Operation *op, mlir::OpBuilder &b, mlir::IRMapping &map,
              llvm::function_ref<bool(mlir::Operation *, mlir::OpBuilder &, mlir::IRMapping &)> emit) const;

  llvm::DenseSet<mlir::Value> values;
  llvm::DenseSet<mlir::Operation *> ops;
};

} // namespace sectile::passes
