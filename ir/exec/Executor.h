// SPDX-License-Identifier: Apache-2.0
/// \file Runs final `tgpu` kernels on the host as the GPU does: every register of every lane of every warp by
/// its layout, shared memory byte by byte, barriers, memory instructions as code generation issues them. It
/// counts what the memories do, and finds what the interpreter of values cannot see: data in the wrong
/// thread, copies that disagree, buffers that share bytes while both are live, missing barriers, accesses out
/// of bounds or out of alignment.
///
/// The way of a kernel: `build` decodes each op once into an action with its tables (Program.h); `run` lets
/// the blocks of each program, one or a cluster, walk through the actions in step. An op's maker stands in
/// the table in Program.cpp.
#pragma once

#include "ir/TgpuDialect.h"
#include <sectile/KernelArg.h>

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sectile::tgpu {

/// What one op did, over all programs of a run.
struct OpCounts {
  mlir::Operation *op = nullptr;
  std::int64_t requests = 0;   ///< instructions of a warp that moved something
  std::int64_t bytes = 0;      ///< that their lanes asked for
  std::int64_t sectors = 0;    ///< global memory: 32-byte sectors, summed over requests
  std::int64_t wavefronts = 0; ///< shared memory: passes over the banks
  std::int64_t conflicts = 0;  ///< of these, more than the width of the access needs
  std::int64_t barriers = 0;
  std::int64_t clusterBarriers = 0; ///< of the barriers, those of all blocks of a cluster
  std::int64_t runs = 0;            ///< of a product: times that a block went through it
  OpCounts &operator+=(const OpCounts &o);
  OpCounts &operator*=(std::int64_t times);
};

/// The products that one program of a grid went through.
struct ProgramWork {
  std::int64_t number = 0, products = 0;
};

/// What is wrong with a kernel. `text` names the user's line, the op and what happened, with the numbers.
struct ExecFault {
  mlir::Operation *op = nullptr;
  std::string what;
  std::string text() const;
};

struct ExecResult {
  std::optional<ExecFault> fault; ///< the run ended there
  std::vector<OpCounts> counts;   ///< of memory ops, products and barriers, in the order of the text
  std::int64_t programs = 0;
  std::vector<ProgramWork> work; ///< of each sample; none of whole persistent blocks
  const OpCounts *of(mlir::Operation *op) const;
  OpCounts total() const;
};

/// A program of the grid, by its number in row-major order, that stands for others: its counts count `times`
/// times.
struct ProgramSample {
  std::int64_t number = 0, times = 1;
};

/// A kernel made ready to run. Immutable; the module must outlive it.
class Executor {
public:
  /// Decodes the one function of `module` that has `tile.kernel`. On what threads cannot do: null, and a
  /// diagnostic at that op.
  static std::unique_ptr<Executor> build(mlir::ModuleOp module);
  ~Executor();

  /// Runs every program of the grid, in ascending order. Addresses count as they are: give memory that is
  /// aligned as on a device. `parts`: blocks per program of a kernel whose loop may be shared and does not
  /// say, at most one per trip; or the last programs whose trips the blocks share (tgpu.shared_programs). @pre ranks and dtypes match the kernel's arguments.
  ExecResult run(std::span<const KernelArg> args, std::int64_t parts = 1) const;
  /// Runs these programs alone.
  ExecResult run(std::span<const KernelArg> args, std::int64_t parts,
                 std::span<const ProgramSample> samples) const;
  /// Programs along each axis of the grid; empty: there is one.
  std::vector<std::int64_t> grid(std::span<const KernelArg> args) const;
  /// A run has at most this many blocks of a persistent kernel.
  static constexpr std::int64_t persistentBlocks = 3;
  /// Which role of a kernel with tgpu.roles goes on while both can: the consumers, else the producer.
  bool consumersFirst = false;

  struct Impl;

private:
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace sectile::tgpu
