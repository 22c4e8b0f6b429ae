// SPDX-License-Identifier: Apache-2.0
/// \file Proves that the two roles of a tgpu.roles go through the slots of its pipes in the same order and number,
/// whichever way branches go and however often loops run.
#pragma once

#include "ir/TgpuDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace sectile::passes {

/// Both roles are taken apart into what fills or awaits slots: single slots, and the loops and branches around them.
/// These lists must agree one by one; loops must have equal bounds and branches equal conditions, and what is inside
/// must agree in the same way. By induction over this structure both roles then take the same slots in the same order,
/// for every number of trips.
///
/// Two scalars are equal if they are one value from above the roles, if the same ops compute them from equal scalars, or
/// if equal loops and branches pass them on: carried values by induction over the trips, from equal initial values and
/// the proof that equal values of one trip make equal values of the next. Reads count as equal where the kernel never
/// writes that tensor.
class RoleMatch {
public:
  explicit RoleMatch(tgpu::RolesOp roles);
  /// Emits at the user's line what is not proved.
  mlir::LogicalResult run();
  /// In the order of their creation.
  int64_t numberOf(mlir::Value pipe) const { return pipes.lookup(pipe); }

private:
  using Items = llvm::SmallVector<mlir::Operation *>;
  Items itemsOf(mlir::Block *block) const;
  std::string describe(mlir::Operation *item) const;
  mlir::LogicalResult match(mlir::Block *producer, mlir::Block *consumer, mlir::Location around);
  mlir::LogicalResult matchItems(mlir::Operation *p, mlir::Operation *c);
  mlir::LogicalResult differ(mlir::Operation *at, const char *what, mlir::Value p, mlir::Value c);

  bool same(mlir::Value p, mlir::Value c);
  bool prove(mlir::Value p, mlir::Value c);
  bool proveArguments(mlir::BlockArgument p, mlir::BlockArgument c);
  bool proveResults(mlir::OpResult p, mlir::OpResult c);
  bool align(mlir::Operation *p, mlir::Operation *c);
  bool aligned(mlir::Operation *p, mlir::Operation *c) const;
  bool isConstantRead(mlir::Operation *op) const;

  tgpu::RolesOp roles;
  llvm::DenseMap<mlir::Value, int64_t> pipes;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> loops; ///< of the producer -> of the consumers, and back
  /// Assumed while it is being proved. A proof that fails anywhere fails as a whole, so nothing that was concluded
  /// from a wrong assumption is ever used.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, bool> known;
};

} // namespace sectile::passes
