// SPDX-License-Identifier: Apache-2.0
/// \file HintEviction: accesses say what the L2 cache should keep.
///
/// Before: accesses without hints. After: loads and stores of global memory carry `tgpu.evict`: "last" where the program
/// loads the same elements again, "first" where it does not touch them any more. Accesses of single elements, and of what
/// other programs read as well, stay as they are: these share lines, or come back.
///
/// It may pay where a program goes through its elements several times: what all programs that run at once need again is to stay
/// in the cache, and what has been read for the last time or was written is to make room. By rule no hints are given.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile::passes {
#define GEN_PASS_DEF_HINTEVICTIONPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

struct HintEviction : sectile::passes::impl::HintEvictionPassBase<HintEviction> {
  using HintEvictionPassBase::HintEvictionPassBase;

  void runOnOperation() override {
    if (evict != 2)
      return;
    func::FuncOp func = getOperation();
    SmallVector<tgpu::GlobalLoadOp> loads;
    SmallVector<tgpu::GlobalStoreOp> stores;
    func.walk([&](tgpu::GlobalLoadOp op) { loads.push_back(op); });
    func.walk([&](tgpu::GlobalStoreOp op) { stores.push_back(op); });
    llvm::DenseMap<Operation *, bool> again;
    for (auto [i, load] : llvm::enumerate(loads))
      again[load] = llvm::any_of(ArrayRef(loads).drop_front(i + 1), [&](tgpu::GlobalLoadOp other) { return readsAgain(load, other); });
    int kept = 0, passed = 0;
    for (tgpu::GlobalLoadOp load : loads)
      if (isTile(load.getResult()) && isOfProgram(load.getOffsets())) {
        hint(load, again[load] ? "last" : "first");
        ++(again[load] ? kept : passed);
      }
    for (tgpu::GlobalStoreOp store : stores)
      if (isTile(store.getValue()) && isOfProgram(store.getOffsets())) {
        hint(store, "first");
        ++passed;
      }
    if (kept + passed)
      noteChoice(func, "evict: the L2 cache keeps what " + Twine(kept) + " accesses move before what " + Twine(passed) + " others do");
  }

private:
  static void hint(Operation *op, StringRef what) { op->setAttr(tgpu::evictAttr, StringAttr::get(op->getContext(), what)); }

  /// Some offset follows from the program's place: other programs go elsewhere.
  static bool isOfProgram(ValueRange offsets) {
    SmallVector<Value> todo(offsets);
    llvm::SmallPtrSet<Operation *, 16> seen;
    while (!todo.empty()) {
      Value v = todo.pop_back_val();
      Operation *op = v.getDefiningOp();
      if (!op)
        continue; // counters and arguments: the same in all programs
      if (isa<tileir::GridOp, tgpu::ProgramOp>(op))
        return true;
      if (seen.insert(op).second)
        llvm::append_range(todo, op->getOperands());
    }
    return false;
  }

  /// Counters of loops over the same range stand for each other.
  static bool samePlace(Value x, Value y) {
    if (x == y)
      return true;
    auto a = dyn_cast<BlockArgument>(x), b = dyn_cast<BlockArgument>(y);
    if (a && b) {
      auto p = dyn_cast<scf::ForOp>(a.getOwner()->getParentOp()), q = dyn_cast<scf::ForOp>(b.getOwner()->getParentOp());
      return p && q && a == p.getInductionVar() && b == q.getInductionVar() && samePlace(p.getLowerBound(), q.getLowerBound()) &&
             samePlace(p.getUpperBound(), q.getUpperBound()) && samePlace(p.getStep(), q.getStep());
    }
    Operation *p = x.getDefiningOp(), *q = y.getDefiningOp();
    if (!p || !q || p->getName() != q->getName() || p->getNumOperands() != q->getNumOperands() || p->getNumRegions() ||
        p->getAttrs() != q->getAttrs() || !isMemoryEffectFree(p) ||
        cast<OpResult>(x).getResultNumber() != cast<OpResult>(y).getResultNumber())
      return false;
    return llvm::all_of(llvm::zip_equal(p->getOperands(), q->getOperands()), [](auto pair) { return samePlace(std::get<0>(pair), std::get<1>(pair)); });
  }
  static bool readsAgain(tgpu::GlobalLoadOp a, tgpu::GlobalLoadOp b) {
    return a.getX() == b.getX() && shapeOf(a.getType()) == shapeOf(b.getType()) &&
           llvm::all_of(llvm::zip_equal(a.getOffsets(), b.getOffsets()), [](auto pair) { return samePlace(std::get<0>(pair), std::get<1>(pair)); });
  }
};

} // namespace
