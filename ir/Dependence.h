// SPDX-License-Identifier: Apache-2.0
/// \file Which values change with another one, and which loops and branches run otherwise with it.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace sectile::tileir {

/// Everything that depends on `source`: results of ops with such operands, what loops and branches pass on, and all that
/// loops and branches give whose trips or ways depend on it. What goes through memory is not followed.
class Dependence {
public:
  explicit Dependence(mlir::ValueRange sources);
  bool of(mlir::Value v) const { return values.contains(v); }
  /// A loop or branch around `op` runs otherwise.
  bool ofControl(mlir::Operation *op) const;

private:
  void add(mlir::Value v);
  void addAll(mlir::ValueRange all) {
    for (mlir::Value v : all)
      add(v);
  }
  void addControl(mlir::Operation *op);
  void follow(mlir::OpOperand &use);

  llvm::DenseSet<mlir::Value> values;
  llvm::DenseSet<mlir::Operation *> control;
  llvm::SmallVector<mlir::Value> work;
};

} // namespace sectile::tileir
