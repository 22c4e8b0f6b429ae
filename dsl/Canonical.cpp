// SPDX-License-Identifier: Apache-2.0
// C++ leaves the order in which operands are evaluated to the compiler. The order of ops in a block is
// therefore made anew from what does not depend on it: the data flow, and the order of statements that write
// memory.
#include "dsl/Trace.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace sectile::detail {
namespace {

struct Effects {
  bool writes = false, reads = false;
};

Effects effectsOf(Operation *op) {
  Effects e;
  op->walk([&](Operation *inner) {
    e.writes |= llvm::isa<tileir::StoreOp>(inner);
    e.reads |= llvm::isa<tileir::LoadOp, tileir::GatherOp>(inner);
  });
  return e;
}

class BlockOrder {
public:
  explicit BlockOrder(Block &block) : block(block) {}

  void run() {
    // Anchors stay in their order; a reader belongs to the stretch before the first anchor behind it.
    llvm::SmallVector<Operation *> anchors;
    llvm::SmallVector<std::pair<Operation *, std::size_t>> readers;
    for (Operation &op : block) {
      const Effects e = effectsOf(&op);
      if (e.writes || op.hasTrait<OpTrait::IsTerminator>())
        anchors.push_back(&op);
      else if (e.reads)
        readers.emplace_back(&op, anchors.size());
    }
    for (Operation *a : anchors)
      visit(a);
    llvm::DenseMap<Operation *, std::size_t> rank;
    for (auto [i, op] : llvm::enumerate(order))
      rank[op] = i;
    llvm::erase_if(readers, [&](auto &r) { return !rank.contains(r.first); }); // read for nothing
    llvm::stable_sort(readers, [&](auto &a, auto &b) {
      return std::pair(a.second, rank[a.first]) < std::pair(b.second, rank[b.first]);
    });

    order.clear();
    visited.clear();
    std::size_t next = 0;
    for (auto [i, anchor] : llvm::enumerate(anchors)) {
      for (Operation *need : sources(anchor))
        visit(need);
      for (; next < readers.size() && readers[next].second <= i; ++next)
        visit(readers[next].first); // read here, used behind a later anchor
      visit(anchor);
    }

    llvm::SmallVector<Operation *> dead;
    for (Operation &op : llvm::reverse(block))
      if (!visited.contains(&op))
        dead.push_back(&op);
    for (Operation *op : dead)
      op->erase();
    for (Operation *op : order)
      op->moveBefore(&block, block.end());
  }

private:
  /// Ops of this block that `op` (or an op inside it) takes values from, in the order of their use.
  llvm::SmallVector<Operation *> sources(Operation *op) {
    llvm::SmallVector<Operation *> list;
    auto add = [&](Operation *user) {
      for (Value v : user->getOperands())
        if (Operation *def = v.getDefiningOp())
          if (Operation *here = block.findAncestorOpInBlock(*def); here && here != op)
            list.push_back(here);
    };
    add(op);
    for (Region &region : op->getRegions())
      region.walk<WalkOrder::PreOrder>(add);
    return list;
  }

  /// Appends `op` behind everything it needs.
  void visit(Operation *op) {
    struct Step {
      Operation *op;
      llvm::SmallVector<Operation *> needs;
      std::size_t next = 0;
    };
    if (!visited.insert(op).second)
      return;
    std::vector<Step> stack;
    stack.push_back({op, sources(op)});
    while (!stack.empty()) {
      Step &top = stack.back();
      if (top.next == top.needs.size()) {
        order.push_back(top.op);
        stack.pop_back();
        continue;
      }
      Operation *need = top.needs[top.next++];
      if (visited.insert(need).second)
        stack.push_back({need, sources(need)});
    }
  }

  Block &block;
  std::vector<Operation *> order;
  llvm::DenseSet<Operation *> visited;
};

} // namespace

void orderCanonically(Block &block) {
  // Inner blocks first: their order decides the order of their uses of values from here.
  for (Operation &op : block)
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        orderCanonically(inner);
  BlockOrder(block).run();
}

} // namespace sectile::detail
