// SPDX-License-Identifier: Apache-2.0
/// \file MakePersistent: blocks that go through several programs.
///
/// Before: one program per block. After: kernels with staged loads are a loop over programs, so that loads of the next
/// program are under way while this one ends; programs that run at the same time lie close together (`group`), for the L2
/// cache; where later programs have more trips, the last program comes first. Other kernels are unchanged.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Sequence.h"

namespace sectile::passes {
#define GEN_PASS_DEF_MAKEPERSISTENTPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

/// Rows of the iteration space that a group of programs covers: with 132 programs at a time of 128 x 256 elements, as
/// many rows as columns.
constexpr int64_t groupRows = 2048;

/// How a value moves with the program's place along the slowest axis.
enum class Trend { None, Up, Down, Unknown };

Trend sum(Trend x, Trend y) {
  return x == Trend::None ? y : y == Trend::None || x == y ? x : Trend::Unknown;
}
Trend opposite(Trend t) { return t == Trend::Up ? Trend::Down : t == Trend::Down ? Trend::Up : t; }

Trend trendOf(Value v, tileir::GridOp grid) {
  if (v == grid.getResult(0))
    return Trend::Up;
  auto isConstant = [](Value x) { return matchPattern(x, m_Constant()); };
  if (auto op = v.getDefiningOp<tileir::BinaryOp>()) {
    const Trend a = trendOf(op.getA(), grid), b = trendOf(op.getB(), grid);
    switch (op.getFn()) {
    case tileir::BinaryFn::k_add:
    case tileir::BinaryFn::k_min:
    case tileir::BinaryFn::k_max:
      return sum(a, b);
    case tileir::BinaryFn::k_sub:
      return sum(a, opposite(b));
    case tileir::BinaryFn::k_mul: {
      const bool left = isConstant(op.getA());
      IntegerAttr factor;
      if (!matchPattern(left ? op.getA() : op.getB(), m_Constant(&factor)))
        return a == Trend::None && b == Trend::None ? Trend::None : Trend::Unknown;
      const Trend other = left ? b : a;
      return factor.getInt() < 0 ? opposite(other) : other;
    }
    default:
      return a == Trend::None && b == Trend::None ? Trend::None : Trend::Unknown;
    }
  }
  Operation *op = v.getDefiningOp();
  if (!op)
    return isa<func::FuncOp>(v.getParentRegion()->getParentOp()) ? Trend::None : Trend::Unknown;
  if (op == grid) // the other axes: the same for a whole row of programs
    return Trend::None;
  for (Value operand : op->getOperands())
    if (trendOf(operand, grid) != Trend::None)
      return Trend::Unknown;
  return op->getNumRegions() ? Trend::Unknown : Trend::None;
}

/// How the trips of the loops around staged loads change from program to program.
Trend trendOfTrips(func::FuncOp func, tileir::GridOp grid) {
  Trend trend = Trend::None;
  func.walk([&](tgpu::StageLoadOp load) {
    for (auto loop = load->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>())
      trend = sum(trend, sum(trendOf(loop.getUpperBound(), grid), opposite(trendOf(loop.getLowerBound(), grid))));
  });
  return trend;
}

struct MakePersistent : sectile::passes::impl::MakePersistentPassBase<MakePersistent> {
  using MakePersistentPassBase::MakePersistentPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto grids = func.getOps<tileir::GridOp>();
    if (grids.empty() || func.getOps<tgpu::SplitRangeOp>().begin() != func.getOps<tgpu::SplitRangeOp>().end() ||
        blocksPerProgram(func) > 1 ||
        !func.walk([](tgpu::StageLoadOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return;
    tileir::GridOp grid = *grids.begin();
    const Trend trips = trendOfTrips(func, grid);
    Location loc = grid.getLoc();
    Block &body = func.getBody().front();
    OpBuilder b(&body, body.begin());
    auto blocks = tgpu::BlockNumberOp::create(b, loc, b.getIndexType(), b.getIndexType());
    Value programs = tgpu::ProgramsOp::create(b, loc, b.getIndexType(), grid.getX(), grid.getSizes());
    auto loop = scf::ForOp::create(b, loc, blocks.getNumber(), programs, blocks.getCount());
    Operation *yield = loop.getBody()->getTerminator();
    for (Operation &op : llvm::make_early_inc_range(llvm::make_range(std::next(loop->getIterator()), body.end())))
      if (!op.hasTrait<OpTrait::IsTerminator>())
        op.moveBefore(yield);
    ArrayRef<int64_t> sizes = grid.getSizes();
    int64_t group = 1;
    // Programs of one row have equally many trips: they run beside each other, and blocks get their share of every length.
    if (sizes.size() > 1 && (raster > 0 || trips == Trend::None))
      group = raster > 0 ? raster : std::clamp<int64_t>(groupRows / sizes[sizes.size() - 2], 1, 16);
    b.setInsertionPoint(grid);
    Value number = loop.getInductionVar();
    // The longest first, so that the last ones are short.
    if (trips == Trend::Up)
      number = binary(b, loc, tileir::BinaryFn::k_sub,
                      binary(b, loc, tileir::BinaryFn::k_sub, programs, indexConstant(b, loc, 1)), number);
    auto program = tgpu::ProgramOp::create(b, loc, grid.getResultTypes(), number, grid.getX(), sizes, group);
    grid.replaceAllUsesWith(program.getOffsets());
    grid.erase();
    func->setAttr(tgpu::persistentAttr, b.getUnitAttr());
    hoist(loop);
  }

private:
  /// Single elements that are the same for every program, and that no program writes, are read once per block.
  void hoist(scf::ForOp loop) {
    func::FuncOp func = getOperation();
    for (Operation &op : llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
      const bool outside = llvm::all_of(op.getOperands(), [&](Value v) { return loop.isDefinedOutsideOfLoop(v); });
      if (!outside || op.getNumRegions() || op.getNumResults() == 0)
        continue;
      Value x;
      if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
        x = load.getX();
      else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
        x = gather.getX();
      if (x ? isTile(op.getResult(0)) || isWritten(func, x) : !isMemoryEffectFree(&op))
        continue;
      op.moveBefore(loop);
    }
  }
  static bool isWritten(func::FuncOp func, Value tensor) {
    return func.walk([&](tgpu::GlobalStoreOp store) {
                 return mayShareMemory(func, store.getX(), tensor) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted() ||
           func.walk([&](tgpu::BulkStoreOp store) {
                 return mayShareMemory(func, store.getX(), tensor) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted();
  }
};

} // namespace
