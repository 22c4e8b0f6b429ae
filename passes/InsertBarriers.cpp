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
///
/// Where a cluster runs a program, copies into the shared memory of other blocks and all global memory need
/// barriers of the whole cluster; what a peer_wait waits for needs none. Before the first copy to another
/// block a cluster_start says that all blocks run. A block may end as soon as its own work is done: every
/// peer_copy has its peer_wait, behind which nobody writes into this block any more.
///
/// Warpgroups take no turns where they would wait for each other in one: see ir/Turns.h.

#include "ir/IndexFacts.h"
#include "ir/PingPong.h"
#include "ir/Turns.h"
#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/SharedAccesses.h"
#include "passes/Support.h"

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
  bool remote = false;        ///< into the shared memory of all blocks
  bool async = false;         ///< by the tensor cores themselves: what threads wrote needs a fence first
  bool arrived = false;       ///< remote: what came into this block was waited for
  bool ordered = false;       ///< a barrier of the block stands behind it
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
  // Each warp has its own part of a store's staging, which no other op touches.
  if (isa<tgpu::BulkStoreOp>(earlier.op) || isa<tgpu::BulkStoreOp>(later.op))
    return earlier.shared != later.shared || earlier.shared ? false : earlier.writes && !later.writes;
  if (earlier.shared != later.shared || (!earlier.writes && !later.writes))
    return false;
  if (earlier.shared)
    return earlier.begin < later.end && later.begin < earlier.end;
  // Arguments may overlap, so a read must wait for any write.
  bool mayMeet = earlier.tensor == later.tensor || (earlier.writes && !later.writes);
  return mayMeet && !sameThreads(earlier, later);
}

State accessesOf(Operation *op) {
  State result;
  auto add = [&](bool writes, bool shared) -> Access & {
    result.emplace_back();
    result.back().op = op;
    result.back().writes = writes;
    result.back().shared = shared;
    return result.back();
  };
  forEachBuffer(op, [&](Value buffer, bool writes) {
    tgpu::BufferAllocOp alloc = allocOf(buffer);
    Access &a = add(writes, true);
    a.begin = *alloc.getOffset();
    a.end = a.begin + alloc.getType().bytes();
    a.remote = isa<tgpu::PeerCopyOp>(op);
    a.async = isa<tgpu::WgmmaOp>(op);
  });
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
    add(false, false).tensor = tileir::rootTensor(load.getX());
  else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
    add(false, false).tensor = tileir::rootTensor(gather.getX());
  else if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op))
    add(true, false).tensor = tileir::rootTensor(store.getX());
  else if (auto store = dyn_cast<tgpu::BulkStoreOp>(op))
    add(true, false).tensor = tileir::rootTensor(store.getX());
  return result;
}

class Inserter {
public:
  explicit Inserter(func::FuncOp func) : func(func), blocks(blocksPerProgram(func)) {}

  void run() {
    func.walk([&](tgpu::WgmmaOp op) {
      auto reads = accessesOf(op);
      llvm::append_range(products, reads);
      llvm::append_range(endOf[endOfReads(op)], reads);
    });
    State state;
    visit(func.getBody().front(), state);
    bool copies = false;
    func.walk([&](tgpu::PeerCopyOp) { copies = true; });
    if (!copies)
      return;
    for (Operation &op : func.getBody().front()) {
      auto across = op.walk([](Operation *inner) {
        auto barrier = dyn_cast<tgpu::BarrierOp>(inner);
        return isa<tgpu::PeerCopyOp>(inner) || (barrier && barrier.getCluster()) ? WalkResult::interrupt()
                                                                                 : WalkResult::advance();
      });
      if (!across.wasInterrupted())
        continue;
      OpBuilder b(&op);
      tgpu::ClusterStartOp::create(b, op.getLoc());
      return;
    }
  }

private:
  void visit(Block &block, State &state) {
    for (Operation &op : llvm::make_early_inc_range(block))
      visit(&op, state);
  }
  void visit(Operation *op, State &state);

  enum class Need { None, Block, Cluster };
  Need needed(const Access &earlier, const Access &later) const {
    if ((earlier.arrived && !later.remote) || !conflict(earlier, later))
      return Need::None;
    if (blocks > 1 && (!later.shared || earlier.remote || later.remote))
      return Need::Cluster;
    return earlier.ordered ? Need::None : Need::Block;
  }
  /// What is left of the state behind a barrier.
  void pass(State &state, bool cluster) const {
    if (cluster || blocks == 1)
      return state.clear();
    State ordered;
    for (Access &a : state)
      a.ordered = true;
    join(ordered, state);
    state = std::move(ordered);
  }

  func::FuncOp func;
  int blocks;
  State products; ///< what asynchronous products read, anywhere
  DenseMap<Operation *, State> endOf; ///< the same by the op that waits for them: they read until there
};

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

void Inserter::visit(Operation *op, State &state) {
  if (auto barrier = dyn_cast<tgpu::BarrierOp>(op)) {
    pass(state, barrier.getCluster());
  } else if (auto wait = dyn_cast<tgpu::PeerWaitOp>(op)) {
    for (Access &a : state)
      if (auto copy = dyn_cast<tgpu::PeerCopyOp>(a.op))
        a.arrived |= allocOf(copy.getBuffer()) == allocOf(wait.getBuffer());
  } else if (auto roles = dyn_cast<tgpu::RolesOp>(op)) {
    visit(roles.getConsumer().front(), state); // the producer meets the others at pipes alone
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    // Programs know nothing of each other: what one does in global memory is nothing that the next one waits for.
    const bool goesThroughPrograms = (loop->getParentOp() == func.getOperation() || isa<tgpu::RolesOp>(loop->getParentOp())) && !loop.getBody()->getOps<tgpu::ProgramOp>().empty();
    untilStable(state, [&](State &s) {
      visit(*loop.getBody(), s);
      if (goesThroughPrograms)
        llvm::erase_if(s, [&](const Access &a) { return !a.shared && loop->isProperAncestor(a.op); });
    });
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
    Need need = Need::None;
    for (const Access &later : accesses)
      for (const Access &earlier : state)
        need = std::max(need, needed(earlier, later));
    if (need != Need::None) {
      OpBuilder b(op);
      // This may be the only barrier between a write and a product behind other ops.
      bool fence = llvm::any_of(state, [&](const Access &earlier) {
        return earlier.writes && earlier.shared && !earlier.async &&
               llvm::any_of(products, [&](const Access &later) { return conflict(earlier, later); });
      });
      if (fence)
        tgpu::FenceAsyncOp::create(b, op->getLoc());
      tgpu::BarrierOp::create(b, op->getLoc(), need == Need::Cluster);
      pass(state, need == Need::Cluster);
    }
    join(state, accesses);
    if (auto ended = endOf.find(op); ended != endOf.end())
      join(state, ended->second);
  }
}

/// Where all barriers are known.
void dropTurns(func::FuncOp func) {
  if (!func->hasAttr(tgpu::turnsAttr))
    return;
  bool any = false;
  func.walk([&](Operation *take) {
    if (!take->hasAttr(tgpu::turnTakeAttr))
      return;
    const tgpu::TurnFault fault = tgpu::faultOfTurn(take);
    any |= !fault.at;
    if (!fault.at)
      return;
    addRemark(func, "InsertBarriers", fault.at->getLoc(), "warpgroups issue their products at the same time: they could have turns, but " + fault.what);
    Operation *pass = take;
    while (!pass->hasAttr(tgpu::turnPassAttr))
      pass = pass->getNextNode();
    take->removeAttr(tgpu::turnTakeAttr);
    pass->removeAttr(tgpu::turnPassAttr);
  });
  if (!any)
    func->removeAttr(tgpu::turnsAttr);
}

struct InsertBarriers : sectile::passes::impl::InsertBarriersPassBase<InsertBarriers> {
  void runOnOperation() override {
    Inserter(getOperation()).run();
    dropTurns(getOperation());
  }
};

} // namespace
