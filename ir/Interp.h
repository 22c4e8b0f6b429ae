// SPDX-License-Identifier: Apache-2.0
/// \file The meaning of the language: runs a `tile` kernel on host memory, on typed tile buffers.
/// Also runs the `tgpu` global loads and stores and `scf` structure, so that a pass can be checked by running the
/// module before and after it.
#pragma once

#include "ir/base/Artifact.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <span>

namespace sectile::tileir {

/// A kernel made ready to run: ops decoded once into typed steps. Immutable; `run` may be called from several threads.
class InterpProgram {
public:
  /// Decodes the one function of `module` that has `tile.kernel`. On an op it has no meaning for: null, and a
  /// diagnostic at that op.
  static std::unique_ptr<InterpProgram> build(mlir::ModuleOp module);
  ~InterpProgram();

  /// Runs every program of the grid, in ascending order. Arguments as the kernel declares them; data in host memory.
  /// @pre ranks and dtypes match the kernel's arguments.
  void run(std::span<const KernelArg> args) const;
  /// Grid axes of the kernel (empty: one program).
  const std::vector<GridAxis> &grid() const;

  struct Impl;

private:
  explicit InterpProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace sectile::tileir
