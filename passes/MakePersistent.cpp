// SPDX-License-Identifier: Apache-2.0
/// \file MakePersistent: blocks that go through several programs.
///
/// Before: one program per block. After: kernels with staged loads are a loop over programs, so that loads of the next
/// program are under way while this one ends; programs that run at the same time lie close together (`group`), for the L2
/// cache. Other kernels are unchanged.

#include "passes/Passes.h"
#include "passes/Support.h"

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
    if (sizes.size() > 1)
      group = raster > 0 ? raster : std::clamp<int64_t>(groupRows / sizes[sizes.size() - 2], 1, 16);
    b.setInsertionPoint(grid);
    auto program = tgpu::ProgramOp::create(b, loc, grid.getResultTypes(), loop.getInductionVar(), grid.getX(), sizes, group);
    grid.replaceAllUsesWith(program.getOffsets());
    grid.erase();
    func->setAttr(tgpu::persistentAttr, b.getUnitAttr());
  }
};

} // namespace
