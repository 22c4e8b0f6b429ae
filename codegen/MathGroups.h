// SPDX-License-Identifier: Apache-2.0
/// \file Functions that are quicker for several registers than for each alone.
#pragma once

#include "codegen/EmitContext.h"

namespace sectile::codegen {

/// tanh of f32, up to 32 registers at a time: where all of a warp's are small, by a short polynomial, else as ever.
Regs tanhOf(Builder &b, llvm::Function *fn, llvm::ArrayRef<llvm::Value *> x);

} // namespace sectile::codegen
