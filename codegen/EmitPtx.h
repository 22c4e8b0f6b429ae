// SPDX-License-Identifier: Apache-2.0
/// \file LLVM IR to PTX: a short optimisation pipeline, then LLVM's NVPTX back end, inside a crash guard.
#pragma once

#include <sectile/Targets.h>

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace sectile::codegen {

/// A machine for `target`; null, with a reason, if LLVM does not know it.
std::unique_ptr<llvm::TargetMachine> makeMachine(const Target &target, std::string &whyNot);

/// Verifies, optimises and prints `module`. False, with a reason, for whatever goes wrong, LLVM's fatal
/// errors included.
bool emitPtx(llvm::Module &module, llvm::TargetMachine &machine, std::string &ptx, std::string *llvmIr,
             std::string &whyNot);

} // namespace sectile::codegen
