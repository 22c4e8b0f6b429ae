// SPDX-License-Identifier: Apache-2.0
// What the later loop needs moves in front of the earlier one, then both bodies run behind each other in one loop. Legal where
// no value and no memory goes from the earlier loop, or from what stands between them, to the later one or back.
#include "passes/MergeLoops.h"

#include "ir/IndexFacts.h"
#include "passes/LaneBounds.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sectile::tileir;

namespace sectile::passes {
namespace {

/// Tensors that ops read and write.
struct Touched {
  llvm::DenseSet<Value> reads, writes;
  void add(Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (llvm::isa<tileir::TensorType>(operand.getType()) && !llvm::isa<DimOp, GridOp>(inner))
          (llvm::isa<StoreOp>(inner) ? writes : reads).insert(rootTensor(operand));
    });
  }
  bool conflicts(const Touched &o) const {
    auto meet = [](const llvm::DenseSet<Value> &a, const llvm::DenseSet<Value> &b) {
      return llvm::any_of(a, [&](Value v) { return b.contains(v); });
    };
    return meet(writes, o.reads) || meet(reads, o.writes) || meet(writes, o.writes);
  }
};

class Merger {
public:
  explicit Merger(func::FuncOp kernel) : kernel(kernel) {}

  llvm::SmallVector<Value> run() {
    while (mergeOne())
      ;
    return llvm::SmallVector<Value>(shared.begin(), shared.end());
  }

private:
  bool mergeOne() {
    llvm::SmallVector<scf::ForOp> loops(kernel.getBody().front().getOps<scf::ForOp>());
    for (auto [i, a] : llvm::enumerate(loops))
      for (scf::ForOp b : llvm::ArrayRef(loops).drop_front(i + 1))
        if (sameTrips(a, b) && mayMeet(a, b)) {
          const auto tensors = sharedLoads(a, b);
          if (tensors.empty())
            continue;
          shared.insert(tensors.begin(), tensors.end());
          merge(a, b);
          return true;
        }
    return false;
  }

  bool sameTrips(scf::ForOp a, scf::ForOp b) {
    TileMaps maps;
    return a->getDiscardableAttrDictionary() == b->getDiscardableAttrDictionary() && a.getStep().getType() == b.getStep().getType() &&
           maps.form(a.getLowerBound()) == maps.form(b.getLowerBound()) && maps.form(a.getUpperBound()) == maps.form(b.getUpperBound()) &&
           maps.form(a.getStep()) == maps.form(b.getStep());
  }

  /// Finds what of `b`'s operands has to move in front of `a`.
  bool mayMeet(scf::ForOp a, scf::ForOp b) {
    before.clear();
    llvm::SmallVector<Operation *> open{b};
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      bool usesLoop = false;
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands()) {
          Operation *def = operand.getDefiningOp();
          if (!def || def->getBlock() != a->getBlock() || def->isBeforeInBlock(a))
            continue;
          usesLoop |= def == a;
          if (def != a && before.insert(def))
            open.push_back(def);
        }
      });
      if (usesLoop)
        return false;
    }
    Touched passed, moved;
    moved.add(b);
    for (Operation *op : before)
      moved.add(op);
    for (Operation *op = a; op != b; op = op->getNextNode())
      if (!before.contains(op))
        passed.add(op);
    return !passed.conflicts(moved);
  }

  /// Tensors of which both load the same tile in a trip.
  llvm::SmallVector<Value> sharedLoads(scf::ForOp a, scf::ForOp b) {
    llvm::SmallVector<Value> tensors;
    TileMaps maps;
    const IndexSymbol of{b.getInductionVar().getAsOpaquePointer(), -1}, to{a.getInductionVar().getAsOpaquePointer(), -1};
    auto inA = [&](IndexForm form) {
      if (auto it = form.terms.find(of); it != form.terms.end()) {
        form.terms[to] = it->second;
        form.terms.erase(of);
      }
      return form;
    };
    for (LoadOp x : a.getBody()->getOps<LoadOp>())
      for (LoadOp y : b.getBody()->getOps<LoadOp>())
        if (x.getX() == y.getX() && llvm::isa<BlockArgument>(x.getX()) && x.getType() == y.getType() &&
            llvm::all_of(llvm::zip_equal(x.getOffsets(), y.getOffsets()),
                         [&](const auto &pair) { return maps.form(std::get<0>(pair)) == inA(maps.form(std::get<1>(pair))); }))
          tensors.push_back(x.getX());
    return tensors;
  }

  void merge(scf::ForOp a, scf::ForOp b) {
    llvm::SmallVector<Operation *> moved(before.begin(), before.end());
    llvm::sort(moved, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    for (Operation *op : moved)
      op->moveBefore(a);
    IRRewriter rewriter(kernel.getContext());
    rewriter.setInsertionPoint(a);
    llvm::SmallVector<Value> inits(a.getInits()), results;
    inits.append(b.getInits().begin(), b.getInits().end());
    auto both = scf::ForOp::create(rewriter, rewriter.getFusedLoc({a.getLoc(), b.getLoc()}), a.getLowerBound(), a.getUpperBound(), a.getStep(), inits);
    both->setDiscardableAttrs(a->getDiscardableAttrDictionary());
    Block *body = both.getBody();
    if (!body->empty())
      rewriter.eraseOp(&body->back());
    const size_t count = a.getInits().size();
    llvm::ArrayRef<BlockArgument> carried(body->getArguments().begin() + 1, body->getArguments().end());
    for (auto [loop, args] : {std::pair(a, carried.take_front(count)), std::pair(b, carried.drop_front(count))}) {
      llvm::SmallVector<Value> values{both.getInductionVar()};
      values.append(args.begin(), args.end());
      rewriter.mergeBlocks(loop.getBody(), body, values);
      results.append(body->back().operand_begin(), body->back().operand_end());
      rewriter.eraseOp(&body->back());
    }
    rewriter.setInsertionPointToEnd(body);
    scf::YieldOp::create(rewriter, a.getLoc(), results);
    rewriter.replaceAllUsesWith(a.getResults(), both.getResults().take_front(count));
    rewriter.replaceAllUsesWith(b.getResults(), both.getResults().drop_front(count));
    rewriter.eraseOp(a);
    rewriter.eraseOp(b);
  }

  func::FuncOp kernel;
  llvm::SetVector<Operation *> before; ///< what stands behind the earlier loop and the later one needs
  llvm::SetVector<Value> shared;
};

} // namespace

llvm::SmallVector<Value> mergeLoops(func::FuncOp kernel) { return Merger(kernel).run(); }

} // namespace sectile::passes
