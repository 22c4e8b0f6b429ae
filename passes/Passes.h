// SPDX-License-Identifier: Apache-2.0
/// \file Declarations generated from Passes.td, with the dialects their signatures need.
#pragma once

#include "ir/TgpuDialect.h"
#include "ir/TileDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace sectile::passes {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

} // namespace sectile::passes
