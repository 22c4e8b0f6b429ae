// SPDX-License-Identifier: Apache-2.0
/// \file Which lanes of a value exist, as other values, and the ops that compute with that. For ResolveTails.
#pragma once

#include "passes/Support.h"

#include "mlir/IR/PatternMatch.h"

namespace sectile::passes {

/// Which lanes of a value exist.
struct Exist {
  llvm::SmallVector<mlir::Value, 5> lo,
      hi;           ///< per axis: coordinates lo <= c < hi exist; null: 0, the axis' length
  mlir::Value mask; ///< and where this holds; null: everywhere
  explicit Exist(size_t rank = 0) : lo(rank), hi(rank) {}
};

/// Builds at the insertion point of `b`.
struct ExistBuilder {
  explicit ExistBuilder(mlir::MLIRContext *context) : b(context), loc(mlir::UnknownLoc::get(context)) {}

  /// fn(x, y); null is neutral.
  mlir::Value meet(tileir::BinaryFn fn, mlir::Value x, mlir::Value y);
  mlir::Value maxLo(mlir::Value x, mlir::Value y) { return meet(tileir::BinaryFn::k_max, x, y); }
  mlir::Value minHi(mlir::Value x, mlir::Value y) { return meet(tileir::BinaryFn::k_min, x, y); }
  mlir::Value both(mlir::Value m, mlir::Value n) { return meet(tileir::BinaryFn::k_bitand, m, n); }
  /// Lanes that exist in both.
  Exist meet(const Exist &x, const Exist &y);

  /// An i1 tile of the shape of `like`: which lanes exist. Null: all.
  mlir::Value existTile(mlir::Type like, const Exist &e);
  /// An i1 scalar: the one lane of an axis of length 1 exists. Null: it does.
  mlir::Value unitExists(mlir::Value lo, mlir::Value hi);
  /// x where `exist` (null: everywhere), else a constant.
  mlir::Value selectExisting(mlir::Value exist, mlir::Value x, mlir::TypedAttr otherwise);

  /// x where `e` exists, else a constant.
  mlir::Value fillMissing(mlir::Value x, const Exist &e, mlir::TypedAttr fill);
  /// Intervals as the operands of a bounded op.
  void bounds(const Exist &e, llvm::ArrayRef<int64_t> shape, llvm::SmallVectorImpl<int64_t> &axes,
              llvm::SmallVectorImpl<mlir::Value> &lo, llvm::SmallVectorImpl<mlir::Value> &hi);

  mlir::IRRewriter b;
  mlir::Location loc;
};

/// What a missing lane contributes to a reduction, and the result where no lane exists.
mlir::TypedAttr identityOf(tileir::ReduceKind kind, mlir::Type element);

/// True if `v` is there, or can be brought there, before the op; null always is.
bool canHoist(mlir::Value v, mlir::Operation *before);
/// Moves what computes `v` before the op. @pre canHoist(v, before)
void hoist(mlir::Value v, mlir::Operation *before);
/// True if `v` is there before the op.
bool isBefore(mlir::Value v, mlir::Operation *op);

} // namespace sectile::passes
