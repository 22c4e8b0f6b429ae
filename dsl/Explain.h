// SPDX-License-Identifier: Apache-2.0
/// \file What a kernel does: every access with its vector and its cost, products, roles and pipes, shared memory, how
/// the blocks fill the GPU, what bounds it, and why it is not faster. Costs are counted by the executor on given
/// arguments; what is estimated says so.
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
  std::int64_t tensor = -1; ///< the argument in global memory; -1: none
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::int64_t tileBytes = 0;
  bool byTma = false;            ///< requests are copies of the TMA unit
  bool byCopies = false;         ///< threads copy it to shared memory, past their registers
  std::int64_t copiesPerTile = 1; ///< then
  std::int64_t vectorBytes = 0; ///< of one thread in one instruction; 0: nothing goes through memory
  tgpu::OpCounts counts;        ///< of all programs
  std::string note;             ///< "by ldmatrix", "12 shuffles"
  /// Bytes of one copy of the TMA unit, elements that do not exist included.
  double boxBytes() const { return static_cast<double>(tileBytes) / static_cast<double>(copiesPerTile); }
  /// Of the bytes of its boxes those that exist. @pre requests
  double existingShare() const {
    return static_cast<double>(counts.bytes) / (boxBytes() * static_cast<double>(counts.requests));
  }
  bool isGlobal() const { return kind == Kind::load || kind == Kind::store || kind == Kind::gather; }
  double sectorsPerRequest() const { return perRequest(counts.sectors); }
  double passesPerRequest() const { return perRequest(counts.wavefronts); }

private:
  double perRequest(std::int64_t n) const {
    return counts.requests ? static_cast<double>(n) / static_cast<double>(counts.requests) : 0;
  }
};
std::string_view name(ExplainedAccess::Kind kind);

/// A product of tiles.
struct ExplainedProduct {
  std::string op;          ///< "wgmma"
  std::string instruction; ///< a row of the table of matrix instructions; empty: multiply-adds
  SourceLoc at;
  std::int64_t m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  bool tf32 = false;
  std::string placeA, placeB;              ///< "shared, K-major", "registers"
  std::int64_t runs = 0;                   ///< of all programs
  bool inLoop = false;                     ///< of the kernel's own loops
  std::int64_t instructions = 0;           ///< of all warps or warpgroups in a run
  std::int64_t tensorClocks = 0;           ///< of a run, of wgmma; 0: not known
  std::int64_t sharedBytes = 0;            ///< that the instructions of a run read
  double flops() const { return 2.0 * static_cast<double>(m * n * k) * static_cast<double>(runs); }
};

/// Slots in shared memory that one thread fills ahead of those who compute.
struct ExplainedPipe {
  SourceLoc at; ///< of its first load
  std::int64_t stages = 0, slotBytes = 0, dataBytes = 0; ///< of a slot: with gaps, and of its loads
  std::int64_t offset = 0, barriers = 0;                 ///< in shared memory
  std::vector<std::size_t> loads;                        ///< among the accesses
  std::int64_t consumers = 0;                            ///< warps that release a slot
};

/// What some warps of each block do.
struct ExplainedRole {
  std::string name;
  std::int64_t warps = 0, registers = 0; ///< a thread, after setmaxnreg; 0: as launched
};

/// What AssignLayouts says that its layouts cost, before later passes merge or move anything.
struct ExplainedLayout {
  std::string op, way; ///< "convert_layout", "shared memory"; accesses have no way
  SourceLoc at;
  std::int64_t bytes = 0;                    ///< through shared memory, each time
  std::int64_t vectorBytes = 0, sectors = 0; ///< of an access: of a thread, and of a whole warp's request
  bool inLoop = false;
};

/// Arithmetic of threads beside the products, estimated from the ops.
struct ExplainedArithmetic {
  double clocks = 0;      ///< of a multiprocessor, a program or trip
  SourceLoc first, last;  ///< its ops
};

/// Why the kernel is not faster: a decision of a pass, or something that this launch shows.
struct ExplainedReason {
  std::string by; ///< a pass, or "grid", "trips", "boxes", ..
  SourceLoc at;   ///< may be empty
  std::string text;
};

/// A buffer in shared memory.
struct ExplainedBuffer {
  std::string use;       ///< "conversion", "pipe 0, 4 slots"
  bool whole = false;    ///< live through all of the kernel
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
  std::int64_t warps = 1, producers = 0, cluster = 1, sharedBytes = 0;
  bool isPersistent = false; ///< blocks go through several programs
  std::int64_t parts = 1;     ///< blocks per program of a shared loop in these counts
  bool mayShareLoop = false;
  std::int64_t minBlocks = 0; ///< blocks that the assembler is to leave room for; 0: it is not told
  int registers = -1, spillBytes = -1; ///< per thread; -1: no assembler
  std::string clusterReason;
  std::vector<std::string> choices; ///< of passes, that the source does not show
  std::vector<std::pair<std::int64_t, std::int64_t>> padded; ///< tile lengths, old and new
  bool hasAlignedRows = false;         ///< tiles start where vectors do, before rows that do not
  std::int64_t programs = 0, ran = 0;  ///< of the grid, and those that the counts were taken from
  std::int64_t argumentBytes = 0;      ///< of all tensors
  double bandwidthGBs = 0;
  std::vector<ExplainedAccess> accesses; ///< in the order of the text
  std::vector<ExplainedBuffer> buffers;
  std::vector<ExplainedLayout> layouts;
  std::vector<ExplainedProduct> products;
  std::vector<ExplainedPipe> pipes;
  std::vector<ExplainedRole> roles; ///< none: all warps do the same
  std::optional<ExplainedArithmetic> epilogue, inLoop; ///< per program: outside of, and in, loops that have products
  std::vector<ExplainedReason> decisions; ///< of passes
  std::vector<tgpu::ProgramWork> work; ///< of the programs that ran
  std::optional<tgpu::ExecFault> fault;  ///< the lowered code is wrong: the counts end there

  Occupancy occupancy() const;
  std::int64_t bytesRead() const, bytesWritten() const;
  std::int64_t sectorBytes() const; ///< of the sectors that requests touched
  std::int64_t sharedConflicts() const;
  /// At the bandwidth: every byte of the arguments once, and all sectors of all requests.
  double onceMicroseconds() const, sectorMicroseconds() const;

  /// Programs that the GPU runs at a time, those in all over these, and the share of these places that have a program
  /// while the last is under way.
  std::int64_t places() const;
  double waves() const, waveEfficiency() const;

  double flops() const;
  /// At the dense peak of each product's type; 0 without products, or where a peak is not known.
  double computeMicroseconds() const;
  /// All sectors of all requests, out of the L2 cache; 0 where its rate is not known.
  double l2Microseconds() const;
  /// "compute", "memory" or "L2": the longest of the three.
  std::string_view bound() const;
  /// Clocks of a multiprocessor per program: of the tensor cores, and of shared memory for what products read and the
  /// TMA unit and threads move. 0: not known.
  double tensorClocks() const, sharedClocks() const;
  /// The decisions, and what the numbers show.
  std::vector<ExplainedReason> reasons() const;
};

/// Programs that stand for all of a grid: all of one with at most 64 and 4 * `perKind`; else, of those inside and of those
/// on each edge, up to `perKind` spread evenly. The `times` add up to the number of programs.
std::vector<tgpu::ProgramSample> sampleGrid(const std::vector<std::int64_t> &grid, std::int64_t perKind);

/// Explains a module of final `tgpu` ops that `executor` was built from. Registers and spills are not filled in.
Explanation explain(mlir::ModuleOp module, const tgpu::Executor &executor, std::span<const KernelArg> args, std::int64_t parts,
                    double bandwidthGBs);

std::string explanationText(const Explanation &explanation);
std::string explanationJson(const Explanation &explanation);

} // namespace sectile
