// SPDX-License-Identifier: Apache-2.0
/// \file From ops to steps: the one place of the interpreter that knows MLIR.
#pragma once

#include "ir/InterpImpl.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile::tileir::interp {

/// Decodes a kernel; null after a diagnostic.
std::unique_ptr<Program> decodeKernel(mlir::func::FuncOp kernel);

} // namespace sectile::tileir::interp
