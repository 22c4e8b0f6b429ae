// SPDX-License-Identifier: Apache-2.0
/// \file From a final `tgpu` module to code: LLVM IR through IRBuilder, then PTX through LLVM's NVPTX back
/// end.
#pragma once

#include "ir/base/Artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace sectile::codegen {

/// Text dumps wanted on the way; null: not wanted.
struct Dumps {
  std::string *llvmIr = nullptr; ///< after optimisation
};

/// Emits the kernel of `module`. On success fills launch, arch and ptx of `out` (cubin is the assembler's
/// job). Failure has emitted a diagnostic. Never aborts the process: LLVM's fatal errors come back as
/// diagnostics.
mlir::LogicalResult emit(mlir::ModuleOp module, Artifact &out, const Dumps &dumps = {});

} // namespace sectile::codegen
