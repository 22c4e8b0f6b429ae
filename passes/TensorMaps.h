// SPDX-License-Identifier: Apache-2.0
/// \file Which accesses the TMA unit can serve, and the tensor maps for them.
#pragma once

#include "ir/AccessPlan.h"

#include <optional>
#include <string>

namespace sectile::passes {

/// The number as an expression of the launch (ir/base/LaunchExpr.h); none if it depends on more than arguments.
std::optional<std::string> launchText(mlir::Value v);

/// What the unit needs of an argument: 16-byte alignment of its start and of every stride but that of the axis of
/// stride 1, coordinates of 32 bits. The axis of stride 1; none if the argument cannot be served.
std::optional<int> tmaAxis(mlir::Value tensor);

/// Up to where elements of a bounded access exist, as expressions per axis of the tensor: an access at `offsets`
/// that stops at these limits and at 0 reads and writes exactly the elements of the bounded one. None if the bounds
/// say more than that.
std::optional<llvm::SmallVector<std::string>> accessLimits(mlir::ValueRange offsets, llvm::ArrayRef<int64_t> shape,
                                                           llvm::ArrayRef<int64_t> axes, mlir::ValueRange lo,
                                                           mlir::ValueRange hi);

} // namespace sectile::passes
