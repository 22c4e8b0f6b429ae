// SPDX-License-Identifier: Apache-2.0
/// \file Final `tgpu` modules on the executor, as the tests use it.
#pragma once

#include "ir/exec/Executor.h"

#include <span>
#include <stdexcept>

namespace sectile::test {

/// Runs a lowered module thread by thread; throws std::runtime_error with the fault, if there is one.
inline tgpu::ExecResult runOnThreads(mlir::ModuleOp module, std::span<const KernelArg> args,
                                     std::int64_t parts = 1) {
  auto executor = tgpu::Executor::build(module);
  if (!executor)
    throw std::runtime_error("not executable");
  tgpu::ExecResult result = executor->run(args, parts);
  if (result.fault)
    throw std::runtime_error(result.fault->text());
  return result;
}

/// The same as something with a `run`.
struct OnThreads {
  mlir::ModuleOp module;
  void run(const std::vector<KernelArg> &args) const { runOnThreads(module, args); }
};

} // namespace sectile::test
