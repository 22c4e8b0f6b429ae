// SPDX-License-Identifier: Apache-2.0
/// \file Tracing: runs a kernel's body once and records what it does as a `tile` module.
///
/// A Tile of the body is a *cell*. A stack of frames (function, loop, branch) maps cells to SSA values.
/// Reading a cell inside a loop gives a block argument, made on first touch; when the loop closes, arguments
/// of cells that were not written are replaced by the outer value, and the others become iter_args, in the
/// order of declaration.
#pragma once

#include "ir/Rules.h"

#include <sectile/Error.h>
#include <sectile/Kernel.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace sectile::detail {

/// The `tile` module of a kernel for these arguments: one `func.func` with `tile.kernel`, its arguments the
/// parameters of kind tensor and scalar, in order. `config` comes with the caller's choices and leaves with
/// every number that the kernel asked for. The text of the module depends on the kernel, the constants, the
/// buckets and `config` alone. Throws UserError. @pre hostArgs[i] fits kernel.params[i].
mlir::OwningOpRef<mlir::ModuleOp> trace(mlir::MLIRContext &context, const KernelDesc &kernel,
                                        std::span<const KernelArg> hostArgs, Config &config);
/// Whether this thread is tracing a kernel.
bool tracing();

using Position = CodePosition;

/// What one frame knows of a cell.
struct CellState {
  mlir::Value value;    ///< now; null: none
  mlir::Value entry;    ///< when the frame first touched it (a loop's block argument)
  mlir::Value outer;    ///< what the enclosing frame had then
  Position written;     ///< of the last assignment in this frame
  std::string whyUnset; ///< "the loop at f.cpp:12 may run zero times"
  bool changed() const { return value != entry; }
};
using CellMap = std::map<std::uint32_t, CellState>;

struct Frame {
  enum class Kind { function, loop, branch, whileCondition, whileBody } kind = Kind::function;
  std::uint32_t id = 0;
  Position where;
  mlir::Block *block = nullptr;
  std::unique_ptr<mlir::Block> owned; ///< the block until its region's op exists
  CellMap cells;
  mlir::Value condition; ///< of a whileCondition
  bool hasArguments() const { return kind != Kind::function && kind != Kind::branch; }
};

/// A `range` in the making.
struct LoopTrace {
  mlir::Value lo, hi, step; ///< of the scf.for
  mlir::Value base, factor; ///< counter = base + iv * factor, where factor is set; null: the iv itself
  bool reversed = false;    ///< counter = base - iv
  Position where;
};
/// A `when`: the first branch stays at hand for an `otherwise`.
struct BranchTrace {
  mlir::Value condition;
  Position where;
  Frame thenFrame;
  mlir::Operation *op = nullptr;
  std::vector<std::pair<std::uint32_t, CellState>>
      before; ///< states of the enclosing frame that the op replaced
};

class Trace {
public:
  Trace(mlir::MLIRContext &context, const KernelDesc &kernel, std::span<const KernelArg> hostArgs,
        Config &config);
  ~Trace();
  Trace(const Trace &) = delete;

  /// The trace of this thread. UserError [no_trace] if there is none; the sticky error if one is pending.
  static Trace &get(Position loc, llvm::StringRef op);
  /// The same or null.
  static Trace *current();
  mlir::OwningOpRef<mlir::ModuleOp> run();

  // Positions and errors.
  /// Positions in system headers and in Sectile's own are replaced by the last one in the user's code.
  Position resolve(Position loc);
  mlir::Location at(Position loc);
  [[noreturn]] void fail(Position loc, llvm::StringRef op, std::string message, llvm::StringRef rule,
                         std::string wayOut);
  [[noreturn]] void fail(Position loc, const tileir::Violation &violation);
  /// An error found where nothing may be thrown: thrown by the next operation, or at the end.
  void failLater(ErrorParts parts);

  // Cells.
  CellRef newCell(Position loc);
  CellRef define(mlir::Value value, Position loc);
  CellRef copy(CellRef from, const void *object, Position loc);
  mlir::Value read(CellRef ref, llvm::StringRef op, Position loc);
  void write(CellRef ref, mlir::Value value, Position loc);
  void drop(CellRef ref, const void *object);
  Position positionOf(CellRef ref) const { return cells[ref.cell].where; }
  /// UserError [when_copy] if a variable lives inside this lambda.
  void checkCapture(const void *lambda, std::size_t bytes, llvm::StringRef op, Position loc);

  // Building.
  mlir::OpBuilder &builder() {
    ++events;
    build.setInsertionPointToEnd(frames.back().block);
    return build;
  }
  mlir::MLIRContext *context() { return build.getContext(); }
  /// A constant of this element type in every lane (shape empty: a scalar).
  mlir::Value constant(mlir::Type element, llvm::ArrayRef<int64_t> shape, const Literal &v,
                       llvm::StringRef op, Position loc);
  mlir::Value indexConstant(int64_t v, Position loc);
  mlir::Value binary(tileir::BinaryFn fn, mlir::Value a, mlir::Value b, Position loc);

  // Regions (Control.cpp).
  void push(Frame::Kind kind, Position where);
  Frame pop();
  std::uint32_t addLoop(LoopTrace loop);
  void openLoop(std::uint32_t loop);
  CellRef loopCounter(std::uint32_t loop);
  void closeLoop(std::uint32_t loop);
  void leaveLoop(std::uint32_t loop, std::size_t depth);
  std::uint32_t openBranch(mlir::Value condition, Position where);
  void closeBranch(std::uint32_t branch, Frame *otherwise);
  void reopenBranch(std::uint32_t branch);
  void closeWhile();

  const KernelDesc &kernel;
  std::span<const KernelArg> hostArgs;
  Config &config;
  const std::uint64_t id;
  std::uint64_t events = 0; ///< grows with every op and cell
  std::vector<Frame> frames;
  std::vector<LoopTrace> loops;
  std::vector<BranchTrace> branches;
  bool hasGrid = false;
  BodyArgs *body = nullptr; ///< while the body runs
  mlir::func::FuncOp function;

private:
  /// Ends a block, which may be in no region yet, with this terminator.
  template <class Op, class... A> void end(mlir::Block *block, Position loc, A &&...args) {
    build.setInsertionPointToEnd(block);
    Op::create(build, at(loc), std::forward<A>(args)...);
  }
  struct Cell {
    mlir::Type type; ///< null until the first value
    std::uint32_t frameId = 0, depth = 0;
    Position where;
  };
  CellState &lookup(std::size_t depth, std::uint32_t cell);
  bool visible(const Cell &c) const { return c.depth < frames.size() && frames[c.depth].id == c.frameId; }
  Cell &cellOf(CellRef ref, llvm::StringRef op, Position loc);
  void checkCarriedExtents(mlir::Operation *loop, mlir::ValueRange yielded, llvm::ArrayRef<std::uint32_t> ids,
                           llvm::ArrayRef<Position> written);

  mlir::OpBuilder build;
  std::vector<Cell> cells;
  std::map<std::uintptr_t, std::uint32_t> copies; ///< cells by the address of the object that holds them
  std::vector<std::unique_ptr<mlir::Block>> abandoned;
  std::optional<ErrorParts> sticky;
  std::uint32_t nextFrame = 0;
  Position lastUser;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// "a tile of bf16 [128, 64]", "a scalar of f32", "a tensor".
std::string tileText(mlir::Value v);

/// A value of a loop-carried cell must have the same lanes in every trip: the op inside `loop` that makes the
/// lanes of `value` depend on the trip, and whether it is a mask; null if none does (Extents.cpp).
struct VaryingLanes {
  mlir::Operation *op = nullptr;
  bool mask = false;
};
VaryingLanes lanesThatVary(mlir::Value value, mlir::Operation *loop);

/// Drops unused ops and puts the others into the one order that follows from the data flow and from the order
/// of stores, whatever order the C++ compiler evaluated operands in (Canonical.cpp).
void orderCanonically(mlir::Block &block);

/// A parameter's state while the body runs.
struct BodyArgs::State {
  Trace &trace;
  std::vector<CellRef> cells; ///< per parameter; none for constants
  std::map<const void *, int> variants;
};

} // namespace sectile::detail
