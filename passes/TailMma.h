// SPDX-License-Identifier: Apache-2.0
/// \file Products whose operands have masked lanes. For ResolveTails.
#pragma once

#include "passes/TailExist.h"

namespace sectile::passes {

/// A mask as the conjunction of two: what depends on the coordinate along K alone, and the rest.
struct KMask {
  mlir::Value line; ///< i1, length 1 on the other axis; null: always true
  mlir::Value rest; ///< i1, of the mask's shape; null: always true
};
/// `mask` may be null. `axis` is the axis that is not K.
KMask splitMask(ExistBuilder &e, mlir::Value mask, int axis);

/// The product with pairs of lanes left out where `aMask` or `bMask` (null: all lanes hold) does not hold.
///
/// A zero in the lane left out is not enough where the other operand is infinite or NaN, since 0 * inf is
/// NaN. The program therefore looks at that operand: all finite is the usual case and takes the plain
/// product; otherwise it adds outer products, one k after the other, with a choice per element.
/// @pre the operands of `op` are 0 in lanes left out. Returns the product; `op` is left without meaning.
mlir::Value maskedMma(ExistBuilder &e, tileir::MmaOp op, mlir::Value aMask, mlir::Value bMask);

} // namespace sectile::passes
