// SPDX-License-Identifier: Apache-2.0
/// \file ReuseFills: of a value and what fill_outside makes of it, one lives on.
///
/// Before: after ResolveTails. After: where nothing behind a fill_outside needs the elements that it replaces,
/// the users of its operand take its result. A row that is reduced and used again lies in registers once.
///
/// The elements outside matter to nobody if every user overwrites them (fill_outside of the same box), does not
/// write them (a store within the box), or computes element by element a value of which the same holds.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/IR/Dominance.h"

namespace sectile::passes {
#define GEN_PASS_DEF_REUSEFILLSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Elements c with lo_i <= c_axis_i < hi_i for every listed axis.
class Box {
public:
  explicit Box(tgpu::FillOutsideOp op)
      : axes(op.getAxes().begin(), op.getAxes().end()), lo(op.getLo()), hi(op.getHi()) {}
  bool operator==(const Box &) const = default;

  /// Every element that the op writes lies inside.
  bool covers(tgpu::GlobalStoreOp store) const {
    for (auto [axis, low, high] : llvm::zip_equal(axes, lo, hi)) {
      const auto *at = llvm::find(store.getAxes(), axis);
      if (at == store.getAxes().end())
        return false;
      size_t i = size_t(at - store.getAxes().begin());
      if (store.getLo()[i] != low || !atMost(store.getHi()[i], high))
        return false;
    }
    return true;
  }

private:
  /// v <= bound: it is the bound, or a minimum with it.
  static bool atMost(Value v, Value bound) {
    if (v == bound)
      return true;
    auto op = v.getDefiningOp<BinaryOp>();
    return op && op.getFn() == BinaryFn::k_min && (atMost(op.getA(), bound) || atMost(op.getB(), bound));
  }

  SmallVector<int64_t> axes;
  SmallVector<Value> lo, hi;
};

constexpr int mostSteps = 16;

/// True if this use needs the elements inside the box alone.
bool needsInsideOnly(OpOperand &use, const Box &box, int steps = 0) {
  Operation *user = use.getOwner();
  if (auto fill = dyn_cast<tgpu::FillOutsideOp>(user))
    return Box(fill) == box;
  if (auto store = dyn_cast<tgpu::GlobalStoreOp>(user))
    return box.covers(store);
  if (steps == mostSteps || !isa<UnaryOp, BinaryOp, CompareOp, SelectOp, CastOp>(user))
    return false;
  return llvm::all_of(user->getResult(0).getUses(),
                      [&](OpOperand &next) { return needsInsideOnly(next, box, steps + 1); });
}

struct ReuseFills : sectile::passes::impl::ReuseFillsPassBase<ReuseFills> {
  void runOnOperation() override {
    DominanceInfo dominance(getOperation());
    getOperation().walk([&](tgpu::FillOutsideOp fill) {
      Box box(fill);
      SmallVector<OpOperand *> behind;
      for (OpOperand &use : fill.getX().getUses()) {
        if (use.getOwner() == fill || !dominance.dominates(fill.getOperation(), use.getOwner()))
          continue;
        if (!needsInsideOnly(use, box))
          return;
        behind.push_back(&use);
      }
      for (OpOperand *use : behind)
        use->set(fill.getResult());
    });
  }
};

} // namespace
