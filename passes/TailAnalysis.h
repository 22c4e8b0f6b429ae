// SPDX-License-Identifier: Apache-2.0
/// \file First half of ResolveTails: which parts of which values may be incomplete.
#pragma once

#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile::passes {

/// The parts that may be incomplete, as bits.
struct Parts {
  uint32_t bits = 0;
  static constexpr uint32_t maskBit = 1u << 31;
  static uint32_t lo(size_t axis) { return 1u << axis; }
  static uint32_t hi(size_t axis) { return 1u << (8 + axis); }
  bool hasLo(size_t axis) const { return bits & lo(axis); }
  bool hasHi(size_t axis) const { return bits & hi(axis); }
  bool hasMask() const { return bits & maskBit; }
  bool onAxis(size_t axis) const { return hasLo(axis) || hasHi(axis); }
  void moveAxis(Parts from, size_t fromAxis, size_t toAxis) {
    bits |= (from.hasLo(fromAxis) ? lo(toAxis) : 0) | (from.hasHi(fromAxis) ? hi(toAxis) : 0);
  }
  Parts operator|(Parts o) const { return {bits | o.bits}; }
  bool operator==(const Parts &) const = default;
};

/// Does `x[offset .. offset + length)` need a check at either end?
inline bool needsLo(IndexFacts &facts, mlir::Value offset) { return !facts.nonNegative(offset); }
inline bool needsHi(IndexFacts &facts, mlir::Value x, int64_t axis, mlir::Value offset, int64_t length) {
  return !facts.endsInside(x, axis, offset, length);
}

inline bool isElementwise(mlir::Operation *op) {
  return llvm::isa<tileir::UnaryOp, tileir::BinaryOp, tileir::CompareOp, tileir::SelectOp, tileir::FmaOp,
                   tileir::CastOp>(op);
}

/// Follows incomplete parts forward through ops and around loops. The rewrite makes a value's interval or
/// mask exactly where this walk said that it may be incomplete.
class TailAnalysis {
public:
  explicit TailAnalysis(IndexFacts &facts) : facts(facts) {}
  void run(mlir::Block &block);
  Parts of(mlir::Value v) const { return parts.lookup(v); }
  /// Of what a loop or branch carries: iteration arguments (for), results (if), `before` arguments (while).
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Parts>> carried;
  /// Of the results of a while loop.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Parts>> whileResults;

private:
  void visit(mlir::Operation *op);
  void set(mlir::Value v, Parts p);
  llvm::SmallVector<Parts> all(mlir::ValueRange values) const;
  void setAll(mlir::ValueRange values, llvm::ArrayRef<Parts> p);

  IndexFacts &facts;
  llvm::DenseMap<mlir::Value, Parts> parts;
};

} // namespace sectile::passes
