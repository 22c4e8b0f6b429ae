// SPDX-License-Identifier: Apache-2.0
/// \file InsertBarriers: barriers between conflicting memory accesses.
///
/// Before: placed buffers, no barriers. After: on every path, also around loops, two accesses to overlapping
/// bytes of shared memory of which one writes have a barrier between them. The same holds for global memory
/// that a program reads after writing it, or writes after accessing it through the same argument, unless
/// every thread meets its own elements again.
///
/// The state is the set of accesses since the last barrier on some path. Conditions of branches and loops are
/// scalars and the same for all threads, so a barrier may stand anywhere.

#include "ir/IndexFacts.h"
#include "passes/Passes.h"
#include "passes/SharedAccesses.h"

namespace sectile::passes {
#define GEN_PASS_DEF_INSERTBARRIERSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

struct Access {
  Operation *op = nullptr;
  bool writes = false, shared = false;
  bool carried = false;       ///< of an earlier iteration
  int64_t begin = 0, end = 0; ///< bytes of shared memory
  Value tensor;               ///< global: the argument
  bool operator==(const Access &) const = default;
};
using State = SmallVector<Access>;

bool join(State &into, const State &more) {
  bool changed = false;
  for (const Access &a : more)
    if (!llvm::is_contained(into, a)) {
      into.push_back(a);
      changed = true;
    }
  return changed;
}

/// Tensor, offsets and tile of a global load or store.
struct GlobalPlace {
  Value tensor;
  SmallVector<Value> offsets;
  Type tile;
};
std::optional<GlobalPlace> placeOf(Operation *op) {
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
    return GlobalPlace{load.getX(), SmallVector<Value>(load.getOffsets()), load.getType()};
  if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op))
    return GlobalPlace{store.getX(), SmallVector<Value>(store.getOffsets()), store.getValue().getType()};
  return std::nullopt;
}

/// Both touch the same elements of memory from the same threads. A layout with copies does not count: one
/// thread writes what several read.
bool sameThreads(const Access &earlier, const Access &later) {
  auto a = placeOf(earlier.op), b = placeOf(later.op);
  if (!a || !b || a->tensor != b->tensor || a->offsets != b->offsets || a->tile != b->tile)
    return false;
  auto layout = tgpu::layoutOf(a->tile);
  if (!layout || !layout->isInjective())
    return false;
  // In another iteration the same values may mean other offsets.
  return !earlier.carried || llvm::all_of(a->offsets, [](Value v) {
    return isa<func::FuncOp>(v.getParentBlock()->getParentOp());
  });
}

bool conflict(const Access &earlier, const Access &later) {
  if (earlier.shared != later.shared || (!earlier.writes && !later.writes))
    return false;
  if (earlier.shared)
    return earlier.begin < later.end && later.begin < earlier.end;
  // Arguments may overlap, so a read must wait for any write.
  bool mayMeet = earlier.tensor == later.tensor || (earlier.writes && !later.writes);
  return mayMeet && !sameThreads(earlier, later);
}

SmallVector<Access, 2> accessesOf(Operation *op) {
  SmallVector<Access, 2> result;
  forEachBuffer(op, [&](Value buffer, bool writes) {
    tgpu::BufferAllocOp alloc = allocOf(buffer);
    int64_t begin = *alloc.getOffset();
    result.push_back({op, writes, true, false, begin, begin + alloc.getType().bytes(), Value()});
  });
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
    result.push_back({op, false, false, false, 0, 0, tileir::rootTensor(load.getX())});
  else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
    result.push_back({op, false, false, false, 0, 0, tileir::rootTensor(gather.getX())});
  else if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op))
    result.push_back({op, true, false, false, 0, 0, tileir::rootTensor(store.getX())});
  return result;
}

void visit(Block &block, State &state);

/// Runs `body` until what its end leaves at its start is already known there.
template <class F> void untilStable(State &entry, F body) {
  while (true) {
    State state = entry;
    body(state);
    for (Access &a : state)
      a.carried = true;
    if (!join(entry, state))
      return;
  }
}

void visit(Operation *op, State &state) {
  if (isa<tgpu::BarrierOp>(op)) {
    state.clear();
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    untilStable(state, [&](State &s) { visit(*loop.getBody(), s); });
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    State exit;
    untilStable(state, [&](State &s) {
      visit(*loop.getBeforeBody(), s);
      exit = s;
      visit(*loop.getAfterBody(), s);
    });
    state = exit;
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    State other = state;
    visit(*branch.thenBlock(), state);
    if (branch.elseBlock())
      visit(*branch.elseBlock(), other);
    join(state, other);
  } else {
    auto accesses = accessesOf(op);
    bool conflicts = llvm::any_of(accesses, [&](const Access &later) {
      return llvm::any_of(state, [&](const Access &earlier) { return conflict(earlier, later); });
    });
    if (conflicts) {
      OpBuilder b(op);
      tgpu::BarrierOp::create(b, op->getLoc());
      state.clear();
    }
    for (const Access &a : accesses)
      if (!llvm::is_contained(state, a))
        state.push_back(a);
  }
}

void visit(Block &block, State &state) {
  for (Operation &op : llvm::make_early_inc_range(block))
    visit(&op, state);
}

struct InsertBarriers : sectile::passes::impl::InsertBarriersPassBase<InsertBarriers> {
  void runOnOperation() override {
    State state;
    visit(getOperation().getBody().front(), state);
  }
};

} // namespace
