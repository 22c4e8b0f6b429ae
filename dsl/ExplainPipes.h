// SPDX-License-Identifier: Apache-2.0
/// \file Products, roles, pipes and decisions of passes, as an explanation has them.
#pragma once

#include "dsl/Explain.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile {

/// Fills in products, pipes, roles, arithmetic and decisions. `accesses`: where the explanation has an op.
void explainProducts(mlir::func::FuncOp func, const tgpu::ExecResult &result,
                     const llvm::DenseMap<mlir::Operation *, std::size_t> &accesses, Explanation &out);

} // namespace sectile
