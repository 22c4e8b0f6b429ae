// SPDX-License-Identifier: Apache-2.0
/// \file The rules C1.. of every `tile` op, in one place: the verifier reports a violation as a diagnostic, the
/// C++ front end as a UserError at the user's line. Each `inferX` gives the result type or fills the violation.
#pragma once

#include "ir/TileDialect.h"

namespace sectile::tileir {

/// One broken rule: the op's name as the user writes it, a sentence with both offending values, the label and what to do.
struct Violation {
  std::string op, message, rule, wayOut;
  /// "K of a (64) differs from K of b (32) [mma_c1]; load b as [64, N]"
  std::string text() const { return message + " [" + rule + "]" + (wayOut.empty() ? "" : "; " + wayOut); }
};

/// An inferred type, null when the violation is set.
using Inferred = mlir::Type;

/// Not of `bits`, whose result is named: inferBits.
Inferred inferUnary(UnaryFn fn, mlir::Type x, Violation &v);
Inferred inferBits(mlir::Type x, DType to, Violation &v);
/// No broadcasting here: the front end broadcasts first (inferBroadcastPair).
Inferred inferBinary(BinaryFn fn, mlir::Type a, mlir::Type b, Violation &v);
Inferred inferCompare(ComparePred pred, mlir::Type a, mlir::Type b, Violation &v);
Inferred inferSelect(mlir::Type cond, mlir::Type a, mlir::Type b, Violation &v);
Inferred inferFma(mlir::Type a, mlir::Type b, mlir::Type c, Violation &v);
Inferred inferCast(mlir::Type x, DType to, Violation &v);
/// The common shape of two operands of an elementwise op: scalars and axes of length 1 repeat, ranks are equal
/// otherwise. `op` names the user's operation in the message.
std::optional<llvm::SmallVector<int64_t>> inferBroadcastShape(llvm::StringRef op, mlir::Type a, mlir::Type b,
                                                             Violation &v);
Inferred inferBroadcast(mlir::Type x, llvm::ArrayRef<int64_t> shape, Violation &v);
Inferred inferReshape(mlir::Type x, llvm::ArrayRef<int64_t> shape, Violation &v);
Inferred inferPermute(mlir::Type x, llvm::ArrayRef<int64_t> perm, Violation &v);
Inferred inferReduce(ReduceKind kind, mlir::Type x, int64_t axis, Violation &v);
Inferred inferMma(MmaPolicy policy, mlir::Type a, mlir::Type b, mlir::Type acc, Violation &v);
Inferred inferLoad(TensorType x, size_t numOffsets, llvm::ArrayRef<int64_t> shape, Violation &v);
bool checkStore(mlir::Type value, TensorType x, size_t numOffsets, bool readOnly, Violation &v);
Inferred inferGather(TensorType x, llvm::ArrayRef<mlir::Type> indices, Violation &v);
Inferred inferKeep(mlir::Type mask, mlir::Type x, Violation &v);
Inferred inferFill(mlir::Type x, mlir::Type value, Violation &v);
Inferred inferIota(mlir::MLIRContext *context, int64_t axis, llvm::ArrayRef<int64_t> shape, Violation &v);
bool checkAxis(llvm::StringRef op, int64_t axis, int64_t rank, llvm::StringRef rule, Violation &v);
bool checkGrid(TensorType x, llvm::ArrayRef<int64_t> sizes, Violation &v);

} // namespace sectile::tileir
