// SPDX-License-Identifier: Apache-2.0
/// \file What a kernel does to the memories: every access with its vector and its cost, shared buffers, how many
/// blocks fit, totals. Costs are counted by the executor on given arguments, not estimated.
#pragma once

#include "ir/exec/Executor.h"
#include <sectile/Error.h>
#include <sectile/Targets.h>

#include <string>
#include <utility>
#include <vector>

namespace sectile {

/// One op that moves data.
struct ExplainedAccess {
  enum class Kind {
    load,       ///< global memory to registers
    store,      ///< and back
    gather,     ///< element by element
    conversion, ///< of a layout: shared memory, shuffles or other names
    exchange,   ///< of parts of a reduction between warps or blocks
    product,    ///< operands in shared memory
  };
  Kind kind = Kind::load;
  std::string op; ///< "global_load"
  SourceLoc at;   ///< the user's line
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::int64_t tileBytes = 0;
  std::int64_t vectorBytes = 0; ///< of one thread in one instruction; 0: nothing goes through memory
  tgpu::OpCounts counts;        ///< of all programs
  std::string note;             ///< "by ldmatrix", "12 shuffles"
  bool isGlobal() const { return kind == Kind::load || kind == Kind::store || kind == Kind::gather; }
  double sectorsPerRequest() const { return perRequest(counts.sectors); }
  double passesPerRequest() const { return perRequest(counts.wavefronts); }

private:
  double perRequest(std::int64_t n) const {
    return counts.requests ? static_cast<double>(n) / static_cast<double>(counts.requests) : 0;
  }
};
std::string_view name(ExplainedAccess::Kind kind);

/// A buffer in shared memory.
struct ExplainedBuffer {
  SourceLoc first, last; ///< the lines of its first and its last use
  std::int64_t firstOp = 0, lastOp = 0; ///< these uses, as numbers of ops in the order of the text; -1: none
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::int64_t bytes = 0, offset = 0;
};

/// Blocks that fit on a multiprocessor, by each limit; -1: not known.
struct Occupancy {
  std::int64_t byRegisters = -1, byShared = -1, byThreads = -1, byBlocks = -1;
  /// The least of those that are known.
  std::int64_t blocks() const;
};
/// For blocks of `threads` threads with `registers` registers each (-1: not known) and this much shared memory.
Occupancy occupancyOf(const Target &target, std::int64_t threads, std::int64_t registers,
                      std::int64_t sharedBytes);

struct Explanation {
  std::string kernel;
  const Target *target = nullptr;
  std::int64_t warps = 1, cluster = 1, sharedBytes = 0;
  std::int64_t parts = 1;     ///< blocks per program of a shared loop in these counts
  bool mayShareLoop = false;
  std::int64_t minBlocks = 0; ///< blocks that the assembler is to leave room for; 0: it is not told
  int registers = -1, spillBytes = -1; ///< per thread; -1: no assembler
  std::string clusterReason;
  std::vector<std::pair<std::int64_t, std::int64_t>> padded; ///< tile lengths, old and new
  bool hasAlignedRows = false;         ///< tiles start where vectors do, before rows that do not
  std::int64_t programs = 0, ran = 0;  ///< of the grid, and those that the counts were taken from
  std::int64_t argumentBytes = 0;      ///< of all tensors
  double bandwidthGBs = 0;
  std::vector<ExplainedAccess> accesses; ///< in the order of the text
  std::vector<ExplainedBuffer> buffers;
  std::optional<tgpu::ExecFault> fault;  ///< the lowered code is wrong: the counts end there

  Occupancy occupancy() const;
  std::int64_t bytesRead() const, bytesWritten() const;
  std::int64_t sectorBytes() const; ///< of the sectors that requests touched
  std::int64_t sharedConflicts() const;
  /// At the bandwidth: every byte of the arguments once, and all sectors of all requests.
  double onceMicroseconds() const, sectorMicroseconds() const;
};

/// Programs that stand for all of a grid: all of a small one; else, of those inside and of those on each edge,
/// up to `perKind` neighbours from the middle. The `times` add up to the number of programs.
std::vector<tgpu::ProgramSample> sampleGrid(const std::vector<std::int64_t> &grid, std::int64_t perKind);

/// Explains a module of final `tgpu` ops that `executor` was built from. Registers and spills are not filled in.
Explanation explain(mlir::ModuleOp module, const tgpu::Executor &executor, std::span<const KernelArg> args, std::int64_t parts,
                    double bandwidthGBs);

std::string explanationText(const Explanation &explanation);
std::string explanationJson(const Explanation &explanation);

} // namespace sectile
