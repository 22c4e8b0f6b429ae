// SPDX-License-Identifier: Apache-2.0
/// \file THE MAIN PATH: from a kernel and its actual arguments to code that runs. Compile.cpp reads as a list of stages.
#pragma once

#include "dsl/Lower.h"
#include "dsl/Variant.h"
#include "ir/base/Artifact.h"

#include <sectile/Config.h>
#include <sectile/Kernel.h>
#include <sectile/Stream.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sectile::tileir {
class InterpProgram;
}
namespace sectile::runtime {
class Module;
}

namespace sectile {

/// One variant of a kernel, ready to launch: code for a GPU, or a program of the interpreter.
struct CompiledKernel {
  std::shared_ptr<runtime::Module> module;                ///< null on the interpreter
  std::shared_ptr<const tileir::InterpProgram> program;   ///< null on a GPU
  LaunchInfo launch;                                      ///< grid and argument ranks of the interpreter's program
  Config config;                                          ///< with every pick and cover filled in
  std::string arch;                                       ///< empty on the interpreter
  VariantFacts facts;                                     ///< what code for a GPU was specialised for
};

/// Compiles `kernel` for `arch` ("interpreter" for the interpreter), specialised on `args`; `apart`: the code may count on
/// areApart(). The log says in what the
/// variant differs from `previous`, unless that is null.
std::shared_ptr<const CompiledKernel> compile(const detail::KernelDesc &kernel, std::span<const KernelArg> args,
                                              const Config *overrides, const std::string &arch, bool apart,
                                              const CompiledKernel *previous);

/// What a stage makes of the kernel as text (the bytes of the cubin for Stage::cubin). No device is needed. With
/// `specialised` false nothing is assumed of alignment and strides beyond a unit stride of the last axis.
std::string emitStage(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config *overrides,
                      const std::string &arch, Stage stage);

} // namespace sectile
