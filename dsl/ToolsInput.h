// SPDX-License-Identifier: Apache-2.0
/// \file What the tools that take a kernel as text have in common: its file, its arguments, its schedule.
#pragma once

#include "dsl/Context.h"
#include "dsl/Lower.h"
#include "dsl/ToolArgs.h"

#include "mlir/IR/OwningOpRef.h"

#include <span>

namespace CLI {
class App;
}

namespace sectile {
class Stream;
}

namespace sectile::tools {

struct InputOptions {
  std::string file, arch = "sm_90a";
  passes::Schedule schedule;
  std::vector<std::string> args;
};

/// Declares FILE, --arch, --warps, --cluster, --split and --arg. `whatFor`: what else than the target of all
/// --arch is.
void addInputOptions(CLI::App &app, InputOptions &options, const std::string &whatFor);

/// Reads a module, from standard input for "-". Null when the file is no module, which is then said on stderr.
/// UserError [run_file] when it cannot be read, [run_kernel] when it holds no kernel.
mlir::OwningOpRef<mlir::ModuleOp> parseFile(const std::string &file, ContextLease &context);

/// The name of the module's kernel.
std::string kernelName(mlir::ModuleOp module);

/// Checks the arguments against those of the kernel, and tells the kernel what they are, where it does not say
/// so itself. Where the file says what arguments are like (`tile.align` and so on), and what was given is not: that is what its code may
/// rely on. UserErrors [run_args], [run_arg_type], [run_arg_fact].
void bindArguments(mlir::ModuleOp module, std::vector<ToolArg> &args);

LowerOptions loweringOf(mlir::ModuleOp module, const passes::Schedule &schedule, const std::string &arch,
                        Stage until);

/// Calls `run` with the arguments in memory of a device.
void onDevice(const Stream &stream, std::vector<ToolArg> &args,
              llvm::function_ref<void(std::span<const KernelArg>)> run);

} // namespace sectile::tools
