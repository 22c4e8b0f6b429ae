// SPDX-License-Identifier: Apache-2.0
/// \file Which accesses the TMA unit can serve, and the tensor maps for them.
#pragma once

#include "ir/AccessPlan.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <string>

namespace sectile::passes {

/// The number as an expression of the launch (ir/base/LaunchExpr.h); none if it depends on more than arguments.
std::optional<std::string> launchText(mlir::Value v);

/// How far an offset moves in one trip of the loop, if that is a constant and it depends on nothing else in the loop.
std::optional<int64_t> stepAlong(mlir::Value offset, mlir::scf::ForOp loop);

/// What the unit needs of an argument: 16-byte alignment of its start and of every stride but that of the axis of
/// stride 1, coordinates of 32 bits. The axis of stride 1; none if the argument cannot be served.
std::optional<int> tmaAxis(mlir::Value tensor);
/// Whether an access that starts at `offset` along the axis of stride 1 begins at a multiple of 16 bytes, as the unit needs: it ends the
/// kernel with an illegal instruction otherwise (seen on an H200). `tensor`: what is accessed, aligned itself.
bool startsAligned(mlir::Value tensor, mlir::Value offset);

/// The place in the map's order of the axis along which rows of a box are farthest apart; none if there is one row.
std::optional<size_t> slowestRows(tgpu::MapAttr map);

/// Up to where elements of a bounded access exist: an access with these limits at placed() offsets, which also stops at 0,
/// reads and writes exactly the elements of the bounded one.
struct AccessLimits {
  llvm::SmallVector<std::string> limits; ///< per axis of the tensor, expressions of the launch
  /// Truths of the program without which the access has no element at all: `holds`, where every guard has its value.
  struct Condition {
    mlir::Value holds;
    llvm::SmallVector<std::pair<mlir::Value, bool>> guards;
  };
  llvm::SmallVector<Condition> conditions;

  /// The offsets, or ones behind every tensor where a condition fails.
  llvm::SmallVector<mlir::Value> placed(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange offsets) const;
};
/// Whether a limit is a multiple of `multiple`, a power of two up to 16, by what the kernel knows of its arguments' dims.
bool isMultiple(mlir::func::FuncOp func, llvm::StringRef limit, int64_t multiple);
/// None if the bounds say more than limits can.
std::optional<AccessLimits> accessLimits(mlir::ValueRange offsets, llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<int64_t> axes, mlir::ValueRange lo, mlir::ValueRange hi);

} // namespace sectile::passes
