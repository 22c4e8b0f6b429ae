// SPDX-License-Identifier: Apache-2.0
/// \file Insides of the executor: a kernel as a list of actions, the state of a block, memory with its
/// history.
///
/// Values live in slots. A tile's elements are register-major: element (register r, thread t) is number
/// r * threads + t, so what one instruction of a warp touches is 32 neighbours.
#pragma once

#include "ir/AccessPlan.h"
#include "ir/exec/Executor.h"
#include <sectile/Targets.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace sectile::tgpu::exec {

using tileir::dtypeOfType;
using tileir::elementOf;
using tileir::shapeOf;

constexpr int sectorBytes = 32; ///< of global memory: what one request moves at least

/// Coordinates of all places of a layout, by (register, thread).
struct LayoutTable {
  Layout layout;
  int regs = 1, threads = 1;
  std::vector<std::vector<std::int32_t>> coords; ///< per axis
  std::vector<std::int32_t> linear;              ///< row-major number of the element
  /// Stores what places share: the threads and registers whose free bits are 0.
  bool owns(int reg, int thread) const { return owns(reg, thread % warpSize, thread / warpSize); }
  bool owns(int reg, int lane, int warp) const {
    return !(unsigned(reg) & freeRegs) && !(unsigned(lane) & freeLanes) && !(unsigned(warp) & freeWarps);
  }
  LayoutTable(const Layout &layout, int threads);

private:
  std::uint32_t freeRegs, freeLanes, freeWarps;
};

/// Where a value lives.
struct Slot {
  DType dtype = DType::i32;
  std::int64_t size = 4;              ///< bytes of an element
  std::int64_t count = 1;             ///< elements
  std::int64_t offset = 0;            ///< in the block's memory of values
  const LayoutTable *table = nullptr; ///< null: a scalar
};
/// A tensor view at run time. `range`: the memory it lies in.
struct View {
  char *data = nullptr;
  int range = 0;
  std::vector<std::int64_t> dims, strides; ///< in elements
};
/// A buffer in shared memory, behind views of it.
struct BufferAt {
  std::int64_t offset = 0;
  BufferType type;
  int number = 0; ///< of its allocation, or of its place in a pipe's slots, from 1
  int place = -1; ///< of a pipe: in Cluster::places, which a wait sets; the offset counts from there
};

// --- memory with its history
// ------------------------------------------------------------------------------------

/// Who touched a piece of memory, and between which barriers. Epochs count barriers of the whole run,
/// `across` those of clusters; 0: never.
struct Cell {
  std::uint32_t writeEpoch = 0, readEpoch = 0, writeAcross = 0, readAcross = 0, sentAcross = 0;
  std::uint16_t writer = 0, reader = 0; ///< threads; several readers: `many`
  std::uint16_t buffer = 0;             ///< shared memory: the buffer through which it was written
  std::uint32_t fence = 0; ///< shared memory: the fence that shows the last write to wgmma and TMA
  std::uint8_t readBlock = 0;           ///< several: `manyBlocks`
  bool underWay = false;                ///< sent by a block, not waited for
  static constexpr std::uint16_t many = 0xffff;
  static constexpr std::uint8_t manyBlocks = 0xff;
};

struct CellsFree {
  void operator()(Cell *cells) const { std::free(cells); }
};

/// The memory of arguments that may overlap, with the history of each piece of `grain` bytes.
struct GlobalRange {
  std::uintptr_t begin = 0, end = 0;
  std::int64_t grain = 1;
  std::unique_ptr<Cell[], CellsFree> cells;
};

/// What all blocks of a run share.
struct RunState {
  std::vector<KernelArg> args;
  std::vector<View> views; ///< of tensor arguments
  std::vector<GlobalRange> ranges;
  std::uint32_t epoch = 0, across = 0;
  ExecResult result;
  explicit RunState(std::span<const KernelArg> args);
};

// --- pipes and products under way
// ----------------------------------------------------------------------------------

/// An mbarrier (PTX ISA, mbarrier objects). A phase ends when no arrival and no byte is missing.
struct Mbarrier {
  std::int64_t expected = 1, pending = 1, bytes = 0, phase = 0;
  /// The phase of this parity has ended, as far as a wait can see.
  bool passed(std::int64_t parity) const { return (phase & 1) != parity; }
  void settle() {
    if (pending > 0 || bytes != 0)
      return;
    ++phase;
    pending = expected;
  }
};

struct PipeSlot {
  Mbarrier full, empty;
  bool acquired = false, held = false;
  static constexpr std::uint8_t whole = 3;
  std::vector<std::uint8_t> filled; ///< per buffer, the halves: bits 0 and 1
  bool uncovered = false;   ///< threads copied into it, and have not arrived behind that
  bool unseen = false;      ///< threads copied into it, and no fence shows that to products
  bool read = false;        ///< threads read it, and no fence is behind that
};
/// Places in program order, each counted from 0: slot number = place mod stages.
struct PipeState {
  std::int64_t fills = 0, waits = 0, releases = 0;
  std::vector<PipeSlot> slots;
};
/// Where the buffers of a wait lie.
struct PipePlace {
  int pipe = -1;
  std::int64_t wait = 0; ///< number of the wait that set it
  std::size_t buffer = 0;
  std::int64_t offset = 0;
};

class Cluster;
/// A group of wgmma instructions. Operands in shared memory are read when it ends.
struct ProductGroup {
  mlir::Operation *op = nullptr;
  std::function<void(Cluster &, ProductGroup &)> finish;
  std::vector<BufferAt> reads;        ///< at their final places
  std::vector<char> registers;        ///< a, whole, where it comes from registers
  std::shared_ptr<ProductGroup> from; ///< gives the accumulator; null: `value` has it
  std::vector<char> value;            ///< by registers and threads: the accumulator, in the end the result
  bool ended = false, replaced = false;
};

/// What one role has to do, and where it stands.
struct Role {
  const char *name;
  int next, end;
  mlir::Operation *waitsAt = nullptr; ///< null: for nothing
  std::string waitsFor;
};

// --- programs
// ---------------------------------------------------------------------------------------------------

struct Program;

/// The blocks that run one program: one, or those of a cluster, in step. Actions change them.
class Cluster {
public:
  Cluster(const Program &program, RunState &run);
  /// Runs one program of the grid, given by its number along each axis. False after a fault.
  bool runProgram(std::vector<std::int64_t> number);

  char *data(const Slot &s) { return values.data() + s.offset; }
  template <class T> T scalar(const Slot &s) {
    T v;
    std::memcpy(&v, data(s), sizeof v);
    return v;
  }
  std::int64_t index(const Slot &s) { return scalar<std::int64_t>(s); }
  template <class T> void set(const Slot &s, T v) { std::memcpy(data(s), &v, sizeof v); }

  /// Ends the run; keeps the first fault.
  void fail(mlir::Operation *op, const std::string &what);
  bool failed() const { return run.result.fault.has_value(); }
  OpCounts &counts(int number) { return run.result.counts[std::size_t(number)]; }

  /// A thread touches global memory; false after a fault.
  bool touchGlobal(mlir::Operation *op, int range, const char *at, std::int64_t bytes, int thread,
                   bool write);
  /// A thread touches the shared memory of a block, of its own where none is named, `at` bytes from its
  /// start; null after a fault.
  char *touchShared(mlir::Operation *op, const BufferAt &buffer, std::int64_t at, std::int64_t bytes,
                    int thread, int block, bool write);
  char *touchShared(mlir::Operation *op, const BufferAt &buffer, std::int64_t at, std::int64_t bytes,
                    int thread, bool write);
  /// What was just written is under way until someone clears `underWay` of the cells; false after a fault.
  bool send(mlir::Operation *op, char *memory, std::int64_t bytes, std::vector<Cell *> &sent);
  void barrier(bool ofCluster);
  /// Two blocks of a kernel with tgpu.pair; the first one runs both.
  static void pairUp(Cluster &first, Cluster &second) {
    first.peer = &second;
    second.peer = &first;
    second.rank = 1;
  }

  // Pipes.cpp: roles, pipes, the TMA unit
  void runRoles(mlir::Operation *op, int producer, int consumer, int end);
  /// The running role goes no further until another has done something. @pre nothing is done yet
  void block(mlir::Operation *op, std::string what);
  /// A buffer at its place in shared memory; none after a fault.
  std::optional<BufferAt> placed(mlir::Operation *op, const BufferAt &buffer);
  /// The TMA unit reads or writes an element of global memory; false after a fault.
  bool touchByTma(mlir::Operation *op, int range, const char *at, std::int64_t bytes, bool write);
  /// The TMA unit writes bytes of a buffer.
  bool fillShared(mlir::Operation *op, const BufferAt &buffer, std::int64_t first, std::int64_t bytes);
  // AsyncLoads.cpp
  /// Products see from now on what threads copied into slots that are held; what threads read there is behind them.
  void fenceSlots();
  /// Threads read a buffer, of a pipe or another one.
  void noteRead(const BufferAt &buffer);
  /// Products see what is in a buffer of a pipe; else a fault.
  bool seenByProduct(mlir::Operation *op, const BufferAt &buffer);
  // Wgmma.cpp
  /// A product under way reads these bytes: null if there is none.
  const ProductGroup *readerOf(std::int64_t begin, std::int64_t end) const;
  /// Products under way may read this buffer, or have read it; false after a fault.
  bool readByProduct(mlir::Operation *op, const BufferAt &buffer, bool ends);
  /// No slot of `tiles` holds a result under way; else a fault.
  bool ready(mlir::Operation *op, llvm::ArrayRef<Slot> tiles);
  void fence() { ++fences; }

  const Program &program;
  RunState &run;
  Cluster *peer = nullptr; ///< the other block of a pair
  int rank = 0;            ///< in the pair
  std::uint32_t epoch = 0, across = 0; ///< the newest of this block, of the run's
  int next = 0;                     ///< the next action
  std::vector<std::int64_t> number; ///< of the program, per axis of the grid
  std::vector<View> views;
  std::vector<char> shared;                             ///< of all blocks
  bool started = false;                                 ///< all blocks are known to run
  std::map<std::int64_t, std::vector<Cell *>> underWay; ///< per count of arrivals
  std::int64_t wantedParts = 1, parts = 1, part = 0; ///< blocks that share a program, and the one that runs
  std::vector<std::vector<char>> partials;           ///< values of the parts so far, put together
  std::map<std::int64_t, std::vector<std::vector<char>>> sharedPartials; ///< the same by the number of a shared program
  std::int64_t blockNumber = 0, blockCount = 1;      ///< of a persistent kernel
  bool consumersFirst = false;                       ///< the role that runs while both can
  Role *running = nullptr;
  std::int64_t progress = 0; ///< counts what a role may wait for
  std::vector<PipeState> pipes;
  std::vector<PipePlace> places;
  std::vector<std::shared_ptr<ProductGroup>> products;              ///< under way, oldest first
  std::map<std::int64_t, std::shared_ptr<ProductGroup>> unready;    ///< by the slot of the value

private:
  bool runPart();
  void start();
  /// The rest of the actions, or those before `end`.
  void runActions(int end);
  bool touch(mlir::Operation *op, Cell &cell, int thread, bool write, const char *memory);
  Cell &cellAt(char *memory);
  std::vector<char> values;
  std::vector<Cell> sharedCells;
  std::uint32_t firstEpoch = 0, firstAcross = 0; ///< of the running program
  std::uint32_t fences = 0, seenFences = 0;      ///< those with a barrier behind them
};

using Action = std::function<void(Cluster &)>;

struct Program {
  mlir::func::FuncOp func;
  int blocks = 1, warps = 1, threads = warpSize; ///< warps and threads of all blocks
  std::int64_t sharedBytes = 0, sharedGrain = 1;
  std::vector<Action> actions;
  std::vector<std::pair<Slot, std::vector<char>>> constants; ///< elements set once per block
  std::vector<std::pair<Slot, int>> scalarArguments;
  std::vector<int> viewOfArgument;
  std::int64_t valueBytes = 0;
  int numViews = 0;
  tileir::GridOp grid;
  ProgramsOp programs;
  bool persistent = false, hasProducts = false, pairs = false;
  llvm::SmallVector<std::int64_t, 2> order; ///< tgpu.program_order
  mlir::Operation *shares = nullptr; ///< the tgpu.shared_programs
  std::int64_t group = 1; ///< of the order of programs
  int numPlaces = 0;      ///< of Cluster::places
  std::vector<OpCounts> counted;

  int blockOf(int thread) const { return thread / (threads / blocks); }

  // --- for makers
  tileir::IndexFacts facts;
  const LayoutTable *table(const Layout &layout);
  Slot slotFor(mlir::Type type);
  Slot define(mlir::Value v) { return slots[v] = slotFor(v.getType()); }
  const Slot &slot(mlir::Value v) const { return slots.find(v)->second; }
  llvm::SmallVector<Slot> slotsOf(mlir::ValueRange values) const;
  int view(mlir::Value v) const { return viewNumbers.lookup(v); }
  int defineView(mlir::Value v) { return viewNumbers[v] = numViews++; }
  llvm::DenseMap<mlir::Value, BufferAt> buffers;
  llvm::DenseMap<mlir::Value, BufferAt> pipes; ///< `place`: the number of the pipe; `number`: of its first buffer
  int numBuffers = 0;
  /// A place for an op's counts.
  int count(mlir::Operation *op);
  /// Null: the function names none.
  const Target *target() const;

  bool decode(mlir::func::FuncOp f);

private:
  bool block(mlir::Block &block);
  bool operation(mlir::Operation *op);
  bool forLoop(mlir::scf::ForOp op);
  bool whileLoop(mlir::scf::WhileOp op);
  bool branch(mlir::scf::IfOp op);
  bool roles(RolesOp op);
  /// Copies values at once, so that they may change places.
  void transfer(mlir::ValueRange from, llvm::ArrayRef<Slot> to);

  llvm::DenseMap<mlir::Value, Slot> slots;
  llvm::DenseMap<mlir::Value, int> viewNumbers;
  std::map<std::string, std::unique_ptr<LayoutTable>> tables;
};

inline char *Cluster::touchShared(mlir::Operation *op, const BufferAt &buffer, std::int64_t at,
                                  std::int64_t bytes, int thread, bool write) {
  return touchShared(op, buffer, at, bytes, thread, program.blockOf(thread), write);
}
inline Cell &Cluster::cellAt(char *memory) {
  return sharedCells[std::size_t((memory - shared.data()) / program.sharedGrain)];
}

/// Is coordinate c of an element between these bounds? On the axes that bounded ops name.
struct Box {
  struct Bound {
    std::size_t axis;
    Slot lo, hi;
  };
  llvm::SmallVector<Bound> bounds;
  struct Limits {
    std::size_t axis;
    std::int64_t lo, hi;
  };
  Box(const Program &p, llvm::ArrayRef<std::int64_t> axes, mlir::ValueRange lo, mlir::ValueRange hi) {
    for (auto [k, axis] : llvm::enumerate(axes))
      bounds.push_back({std::size_t(axis), p.slot(lo[k]), p.slot(hi[k])});
  }
  llvm::SmallVector<Limits> now(Cluster &b) const {
    llvm::SmallVector<Limits> limits;
    for (const Bound &bound : bounds)
      limits.push_back({bound.axis, b.index(bound.lo), b.index(bound.hi)});
    return limits;
  }
  static bool holds(llvm::ArrayRef<Limits> limits, const LayoutTable &table, std::size_t element) {
    return llvm::all_of(limits, [&](const Limits &l) {
      std::int64_t c = table.coords[l.axis][element];
      return l.lo <= c && c < l.hi;
    });
  }
};

/// The bytes of one element.
std::vector<char> elementBytes(mlir::Attribute value, DType dtype);
template <class... A> std::string say(A &&...parts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  ((stream << parts), ...);
  return text;
}

// --- makers: an op's action; null after a diagnostic
// ------------------------------------------------------------

// Values.cpp: elementwise, renames of registers
Action make(Program &p, tileir::ConstantOp op);
Action make(Program &p, tileir::SplatOp op);
Action make(Program &p, tileir::IotaOp op);
Action make(Program &p, tileir::UnaryOp op);
Action make(Program &p, tileir::CastOp op);
Action make(Program &p, BitsOp op);
Action make(Program &p, tileir::BinaryOp op);
Action make(Program &p, tileir::CompareOp op);
Action make(Program &p, tileir::SelectOp op);
Action make(Program &p, tileir::FmaOp op);
Action make(Program &p, WarpAnyOp op);
Action make(Program &p, tileir::BroadcastOp op);
Action make(Program &p, tileir::PermuteOp op);
Action make(Program &p, tileir::ReshapeOp op);
Action make(Program &p, ConvertLayoutOp op);
Action make(Program &p, FillOutsideOp op);
// Folds.cpp: what threads of a warp, or the matrix units, compute together
Action make(Program &p, ReduceOp op);
Action make(Program &p, CombinePartsOp op);
Action make(Program &p, MmaSyncOp op);
/// The product of operands that `operand` (true: a) reads from shared memory, row-major.
Action makeFmaProduct(Program &p, MmaFmaOp op, std::function<std::vector<char>(Cluster &, bool)> operand);
// Memory.cpp: views, global memory
Action make(Program &p, tileir::GridOp op);
Action make(Program &p, SplitRangeOp op);
Action make(Program &p, SharedProgramsOp op);
Action make(Program &p, tileir::DimOp op);
Action make(Program &p, tileir::SliceOp op);
Action make(Program &p, MisalignOp op);
Action make(Program &p, GlobalLoadOp op);
Action make(Program &p, GlobalStoreOp op);
Action make(Program &p, GlobalGatherOp op);
// Shared.cpp
Action make(Program &p, BufferAllocOp op);
Action make(Program &p, BufferViewOp op);
Action make(Program &p, CopyOp op);
Action make(Program &p, CopyOutOp op);
Action make(Program &p, MmaFmaOp op);
Action make(Program &p, BarrierOp op);
Action make(Program &p, ClusterStartOp op);
Action make(Program &p, PeerCopyOp op);
Action make(Program &p, PeerWaitOp op);

// Pipes.cpp
Action make(Program &p, PipeCreateOp op);
Action make(Program &p, PipeAcquireOp op);
Action make(Program &p, PipeCommitOp op);
Action make(Program &p, PipeWaitOp op);
Action make(Program &p, PipeReleaseOp op);
Action make(Program &p, TmaLoadOp op);
Action make(Program &p, AsyncLoadOp op); // AsyncLoads.cpp
Action make(Program &p, AsyncArriveOp op);
Action make(Program &p, BulkStoreOp op);
Action make(Program &p, BlockNumberOp op);
Action make(Program &p, PairRankOp op);
Action make(Program &p, ProgramsOp op);
Action make(Program &p, ProgramOp op);
// Wgmma.cpp
Action make(Program &p, WgmmaOp op);
Action make(Program &p, WgmmaWaitOp op);
Action make(Program &p, FenceAsyncOp op);

/// sum += a * b, with whole row-major operands; `rounded`: inputs to tf32.
using ProductInto = std::function<void(Cluster &, std::vector<char> a, std::vector<char> b)>;
/// Null: there is no such product.
ProductInto makeProduct(DType a, DType b, bool rounded, const Slot &sum, std::int64_t k);
/// The byte address of each element of a buffer, in row-major order, from its start.
std::vector<std::int64_t> elementPlaces(BufferType type);

/// The number of program `place` in the order of tgpu.program, along each axis of `programs`; and back.
std::vector<std::int64_t> numberInOrder(std::int64_t place, llvm::ArrayRef<std::int64_t> programs, std::int64_t group);
std::int64_t placeInOrder(llvm::ArrayRef<std::int64_t> number, llvm::ArrayRef<std::int64_t> programs,
                          std::int64_t group);

/// A null action with a diagnostic.
Action refuse(mlir::Operation *op, const llvm::Twine &why);
/// All copies of an element agree; else a fault at `op`.
bool copiesAgree(Cluster &b, mlir::Operation *op, const Slot &s);

} // namespace sectile::tgpu::exec
