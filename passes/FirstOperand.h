// SPDX-License-Identifier: Apache-2.0
/// \file Where the first operand of a product comes from.
#pragma once

#include "passes/Support.h"

namespace sectile::passes {

/// Before its ends were filled in, and before it was cast or turned.
inline mlir::Value sourceOf(mlir::Value v) {
  while (llvm::isa_and_nonnull<tgpu::FillOutsideOp, tileir::CastOp, tileir::ReshapeOp, tileir::PermuteOp>(v.getDefiningOp()))
    v = v.getDefiningOp()->getOperand(0);
  return v;
}

} // namespace sectile::passes
