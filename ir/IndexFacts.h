// SPDX-License-Identifier: Apache-2.0
/// \file What is known of index values at compile time: divisors, signs, sizes. Used to prove that an access
/// lies inside its tensor and that neighbouring elements can be moved together.
#pragma once

#include "ir/TgpuDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace sectile::tileir {

/// Facts of one index scalar, or of every lane of an index tile.
struct IndexFact {
  int64_t divisor = 1; ///< a power of two that divides the value, at most maxDivisor
  bool nonNegative = false;
  unsigned bits = 63; ///< |value| < 2^bits; 63: nothing known
};

/// A sum of scalars, each times a number, and a constant.
struct IndexSum {
  llvm::SmallVector<std::pair<mlir::Value, int64_t>, 2> terms; ///< each scalar once, no factor is 0
  int64_t constant = 0;
  void add(const IndexSum &other, int64_t factor);
};

/// Facts from constants, `tile.grid`, `tile.dim` (argument attribute `tile.dim_div`), loops and arithmetic.
/// Results are remembered: make a new object after values have been erased.
class IndexFacts {
public:
  static constexpr int64_t maxDivisor = int64_t(1) << 30;

  IndexFact of(mlir::Value v);
  int64_t divisor(mlir::Value v) { return of(v).divisor; }
  bool nonNegative(mlir::Value v) { return of(v).nonNegative; }
  /// Sums of which none is below the scalar: at least one, at most a few.
  llvm::SmallVector<IndexSum, 4> atMost(mlir::Value v);
  /// The value itself, if it is constant.
  static std::optional<int64_t> constant(mlir::Value v);

  /// Divisor of the length of an axis of a tensor view.
  int64_t dimDivisor(mlir::Value tensor, int64_t axis);
  /// The most elements along an axis of a tensor view, from `tile.dim_max` and slices between constants; 0: not known.
  int64_t dimMax(mlir::Value tensor, int64_t axis);
  /// True if offset + length <= dim(tensor, axis) on every program and iteration.
  bool endsInside(mlir::Value tensor, int64_t axis, mlir::Value offset, int64_t length);

private:
  IndexFact compute(mlir::Value v);
  IndexFact ofBinary(BinaryOp op);
  bool staysBelow(mlir::Value counter, mlir::Value first);
  unsigned bitsAtMost(mlir::Value v);
  IndexFact ofCarried(mlir::Value carried, mlir::Value init, mlir::Value yielded);

  llvm::DenseMap<mlir::Value, IndexFact> known;
  llvm::DenseMap<mlir::Value, IndexFact> assumed; ///< carried values whose loop is being looked at
};

/// The tensor that `tensor` is a view of, if only other axes than `axis` were cut on the way.
mlir::Value rootAlongAxis(mlir::Value tensor, int64_t axis);
/// The kernel argument behind a view.
mlir::Value rootTensor(mlir::Value tensor);
/// Byte offsets of the view's elements, and its dims, are known to be in [0, 2^31).
bool hasSmallOffsets(mlir::Value tensor);

} // namespace sectile::tileir
