// SPDX-License-Identifier: Apache-2.0
#include "passes/RegisterPeak.h"

#include "mlir/Analysis/Liveness.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace sectile::passes {
namespace {

using namespace tileir;

class Peak {
public:
  Peak(Region &region, LayoutCache &layouts, bool initialApart)
      : layouts(layouts), liveness(region.getParentOp()), initialApart(initialApart) {}

  void of(Block &block, int64_t around) {
    const LivenessBlockInfo *info = liveness.getLiveness(&block);
    DenseMap<Operation *, int64_t> at;
    for (Operation &op : block)
      at[&op] = around;
    SmallVector<Value> candidates(block.getArguments());
    for (Value v : info->in())
      candidates.push_back(v);
    for (Operation &op : block)
      llvm::append_range(candidates, op.getResults());
    for (Value v : candidates) {
      const int64_t n = words(v);
      if (n == 0)
        continue;
      // The last op that uses it may put its result in the same registers.
      const bool outside = v.getParentBlock() != &block;
      Operation *start = outside || isa<BlockArgument>(v) ? &block.front() : v.getDefiningOp()->getNextNode();
      Operation *end = info->getEndOperation(v, start ? start : &block.back());
      const bool leaves = info->isLiveOut(v);
      for (Operation *op = start; op; op = op->getNextNode()) {
        if (op == end && !leaves && op->getNumRegions() == 0)
          break;
        at[op] += n;
        if (op == end && !leaves)
          break;
      }
    }
    for (Operation &op : block) {
      int64_t made = 0;
      for (Value v : op.getResults())
        made += isa<scf::IfOp>(op) ? 0 : words(v); // what a branch gives is where its sides have it
      const bool carries = !initialApart && isa<scf::ForOp>(op);
      note(at[&op] - (carries ? becomesCarried(cast<scf::ForOp>(op)) : 0) + made, &op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          of(inner, at[&op] - liveInto(inner) - (carries ? becomesCarried(cast<scf::ForOp>(op)) : 0));
    }
  }

  RegisterPeak found;

private:
  void note(int64_t halves, Operation *op) {
    if (halves > found.halves)
      found = {halves, op};
  }

  int64_t words(Value v) {
    auto tile = dyn_cast<RankedTensorType>(v.getType());
    if (!tile || !tile.getEncoding() || tile.getElementType().isInteger(1) ||
        isa_and_nonnull<BroadcastOp, ConstantOp, SplatOp, IotaOp>(v.getDefiningOp()))
      return 0;
    if (isFolded(v))
      return 0;
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(tile.getElementType())));
    const int64_t registers = layouts.of(v).numRegs() / stepsOf(v);
    return bytes >= 2 ? registers * bytes / 2 : (registers + 1) / 2;
  }

  /// An operand that products of warps read from shared memory comes when it is needed: one step along K at a time.
  static int64_t stepsOf(Value v) {
    if (!v.getDefiningOp<tgpu::CopyOutOp>() || v.use_empty())
      return 1;
    int64_t least = 0;
    for (OpOperand &use : v.getUses()) {
      auto product = dyn_cast<tgpu::MmaSyncOp>(use.getOwner());
      if (!product || use.get() == product.getAcc() || product->getBlock() != v.getParentBlock())
        return 1;
      const MmaRow *row = findMma(product.getAtom().getName().str());
      const int64_t steps = row ? std::max<int64_t>(1, shapeOf(product.getA().getType())[1] / row->k) : 1;
      least = least ? std::min(least, steps) : steps;
    }
    return least;
  }

  /// A value that a reduction takes up element by element as it is made.
  static bool isFolded(Value v) {
    if (!v.hasOneUse() || !isa_and_nonnull<UnaryOp, BinaryOp, FmaOp, CastOp, tgpu::FillOutsideOp>(v.getDefiningOp()))
      return false;
    Operation *user = *v.getUsers().begin();
    return isa<tgpu::ReduceOp>(user) ||
           (isa<UnaryOp, BinaryOp, FmaOp, CastOp, tgpu::FillOutsideOp>(user) && isFolded(user->getResult(0)));
  }

  /// What a nested block counts itself.
  int64_t liveInto(Block &block) {
    int64_t n = 0;
    for (Value v : liveness.getLiveness(&block)->in())
      n += words(v);
    return n;
  }
  /// Of the values that a loop starts with, those that nobody needs as they were.
  int64_t becomesCarried(scf::ForOp loop) {
    int64_t n = 0;
    for (Value v : loop.getInitArgs())
      if (v.hasOneUse())
        n += words(v);
    return n;
  }

  LayoutCache &layouts;
  Liveness liveness;
  bool initialApart;
};

} // namespace

RegisterPeak registerPeak(Region &region, LayoutCache &layouts, bool initialApart) {
  Peak peak(region, layouts, initialApart);
  for (Block &block : region)
    peak.of(block, 0);
  return peak.found;
}

} // namespace sectile::passes
