// SPDX-License-Identifier: Apache-2.0
/// \file OverlapProducts: the first products of an iteration are issued before the last ones of the iteration before.
///
/// Before: loops with tile.mma whose atoms are chosen. After: where a loop has products that need nothing of earlier iterations
/// (`first`), then work of threads on them, then products that only add to what the loop carries (`last`), the last ones run
/// one iteration later:
///
///     for i: s = a * b(i); p = work(s); o += p * v(i)
///
/// becomes, for at least one trip,
///
///     s = a * b(0); p = work(s)
///     for i from 1: s = a * b(i); o += p * v(i - 1); p = work(s)
///     o += p * v(last)
///
/// so that the tensor cores add to o while threads work on s. What the last products need of their iteration is carried; what
/// is cheap to make again from the counter, addresses and loads, is made again. The order of all sums stays.

#include "passes/Passes.h"
#include "passes/RegisterBudget.h"
#include "passes/Promotion.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace sectile::passes {
#define GEN_PASS_DEF_OVERLAPPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

class Overlapper {
public:
  Overlapper(scf::ForOp loop, bool always)
      : loop(loop), body(loop.getBody()), counter(loop.getInductionVar()), always(always) {}

  bool run() {
    if (!findProducts() || !findParts() || !(always || pays()))
      return false;
    rewrite();
    return true;
  }

private:
  bool inBody(Value v) const { return v.getParentBlock() == body; }
  static bool isAsynchronous(MmaOp op) {
    auto atom = op->getAttrOfType<tgpu::AtomAttr>(atomAttr);
    const MmaRow *row = atom ? findMma(std::string_view(atom.getName())) : nullptr;
    return row && row->kind == MmaKind::Wgmma;
  }

  /// Operands of an op and of all ops in its regions that the body defines.
  void forOperands(Operation *op, llvm::function_ref<void(Value)> f) const {
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (inBody(v))
          f(v);
    });
  }

  /// The op and what it needs of this body, in front of it.
  void addSlice(Operation *op, SetVector<Operation *> &slice) const {
    if (!slice.insert(op))
      return;
    forOperands(op, [&](Value v) {
      if (Operation *source = v.getDefiningOp())
        addSlice(source, slice);
    });
  }

  /// Needs something that the loop carries.
  bool usesCarried(const SetVector<Operation *> &slice) const {
    bool uses = false;
    for (Operation *op : slice)
      forOperands(op, [&](Value v) { uses |= isa<BlockArgument>(v) && v != counter; });
    return uses;
  }

  bool findProducts() {
    for (Operation &op : body->without_terminator()) {
      const bool inside = op.getNumRegions() && op.walk([](MmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
      if (inside || isa<scf::ForOp, scf::WhileOp>(op))
        return false;
      auto product = dyn_cast<MmaOp>(op);
      if (!product) {
        if (isa<tgpu::GlobalStoreOp>(op))
          stores.push_back(&op);
        else if (!isMemoryEffectFree(&op) && !isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(op))
          return false;
        continue;
      }
      if (!isAsynchronous(product))
        return false;
      SetVector<Operation *> slice;
      addSlice(product, slice);
      if (!usesCarried(slice))
        first.push_back(product);
      else if (product.getResult().hasOneUse() && isa<scf::YieldOp>(*product.getResult().user_begin()))
        last.push_back(product);
    }
    return !first.empty() && !last.empty();
  }

  /// Made again where it is used: no tile but loads and what renames their elements.
  bool isCheap(Operation *op) const {
    if (op->getNumRegions())
      return false;
    if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
      return llvm::none_of(stores, [&](Operation *store) {
        return mayShareMemory(loop->getParentOfType<func::FuncOp>(), cast<tgpu::GlobalStoreOp>(store).getX(), load.getX());
      });
    if (isa<PermuteOp, ReshapeOp>(op) && isTile(op->getResult(0)))
      return op->getOperand(0).getDefiningOp() && inBody(op->getOperand(0)) && isCheap(op->getOperand(0).getDefiningOp());
    auto isTileValue = [](Value v) { return isTile(v); };
    return isMemoryEffectFree(op) && llvm::none_of(op->getOperands(), isTileValue) &&
           llvm::none_of(op->getResults(), isTileValue);
  }

  /// Whether a value of the body can be made again from the counter and from what is carried across as `crossing`.
  void addAgain(Value v) {
    if (!inBody(v) || v == loop.getInductionVar())
      return;
    Operation *op = v.getDefiningOp();
    if (!op || !isCheap(op)) {
      crossing.insert(v);
      return;
    }
    if (!again.insert(op))
      return;
    for (Value operand : op->getOperands())
      addAgain(operand);
  }

  bool findParts() {
    for (MmaOp product : first)
      addSlice(product, front);
    // Threads work on what the first products give, and the last ones wait for that.
    SetVector<Operation *> needed;
    for (MmaOp product : last) {
      addSlice(product, needed);
      if (front.contains(product))
        return false;
      for (Value operand : product->getOperands())
        addAgain(operand);
    }
    auto works = [&](MmaOp product) {
      return needed.contains(product) &&
             llvm::none_of(product.getResult().getUsers(), [&](Operation *user) { return llvm::is_contained(last, dyn_cast<MmaOp>(user)); });
    };
    if (!llvm::any_of(first, works))
      return false;
    for (MmaOp product : last)
      for (Value operand : {product.getA(), product.getB()})
        if (auto source = operand.getDefiningOp<MmaOp>(); source && llvm::is_contained(last, source))
          return false;
    // What is only made for the last products of this iteration.
    for (Operation &op : body->without_terminator())
      if (!front.contains(&op) && !llvm::is_contained(last, dyn_cast<MmaOp>(op)))
        rest.push_back(&op);
    for (Value v : crossing)
      if (llvm::is_contained(last, v.getDefiningOp<MmaOp>()))
        return false;
    return true;
  }

  /// Sums of all products and what is carried for the last ones fit into registers beside each other.
  bool pays() const {
    auto func = loop->getParentOfType<func::FuncOp>();
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    if (!launch)
      return false;
    int64_t bytes = 0;
    auto add = [&](Value v) { bytes += shapedBytes(v); };
    for (MmaOp product : first)
      add(product.getResult());
    for (MmaOp product : last) {
      add(product.getResult());
      if (isPromoted(product, *findMma(std::string_view(product->getAttrOfType<tgpu::AtomAttr>(atomAttr).getName()))))
        add(product.getResult()); // the short sums, beside those that they are added to
      if (crossing.contains(product.getA()))
        add(product.getA());
    }
    constexpr int64_t lanes = 32, registerBytes = 4;
    return bytes / (launch.getWarps() * lanes * registerBytes) <= consumerRegisters(launch.getWarps()) - registersBesideTiles;
  }
  static int64_t shapedBytes(Value v) {
    return llvm::product_of(shapeOf(v.getType())) * int64_t(byteSize(*dtypeOfType(elementOf(v.getType()))));
  }

  // --- the rewrite
  // ---------------------------------------------------------------------------------------------

  static void cloneAll(ArrayRef<Operation *> ops, OpBuilder &b, IRMapping &map) {
    for (Operation *op : ops)
      b.clone(*op, map);
  }
  SmallVector<Operation *> inOrder(const SetVector<Operation *> &set) const {
    SmallVector<Operation *> ops;
    for (Operation &op : *body)
      if (set.contains(&op))
        ops.push_back(&op);
    return ops;
  }

  /// The last products of an iteration, whose values `map` has.
  void cloneLast(OpBuilder &b, IRMapping &map) {
    cloneAll(inOrder(again), b, map);
    for (MmaOp product : last)
      b.clone(*product, map);
  }

  static std::optional<bool> truth(Value v) {
    Attribute attr;
    if (!matchPattern(v, m_Constant(&attr)))
      return std::nullopt;
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      attr = splat.getSplatValue<Attribute>();
    auto number = dyn_cast<IntegerAttr>(attr);
    return number && number.getType().isInteger(1) ? std::optional(!number.getValue().isZero()) : std::nullopt;
  }

  static bool isInfinity(Value v) {
    Attribute attr;
    if (!matchPattern(v, m_Constant(&attr)))
      return false;
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      attr = splat.getSplatValue<Attribute>();
    auto number = dyn_cast<FloatAttr>(attr);
    return number && number.getValue().isPosInfinity();
  }

  /// In the first iteration what is carried is known, and so may be the way of a branch: as for a maximum that nothing has
  /// given yet. All lanes exist here, so one operand may decide alone.
  static void simplifyStart(Block &block, IRMapping &map) {
    OpBuilder b(block.getParent()->getContext());
    SmallVector<std::pair<Value, Value>> changed;
    auto replace = [&](Operation *op, ValueRange values) {
      for (auto [result, value] : llvm::zip_equal(op->getResults(), values)) {
        result.replaceAllUsesWith(value);
        for (auto &entry : map.getValueMap())
          if (entry.second == result)
            changed.push_back({entry.first, value});
      }
      for (auto [from, to] : changed)
        map.map(from, to);
      changed.clear();
      op->erase();
    };
    for (Operation *op = block.empty() ? nullptr : &block.front(); op;) {
      Operation *next = op->getNextNode();
      b.setInsertionPoint(op);
      SmallVector<Value> folded;
      Value constantTruth;
      auto reduce = dyn_cast<ReduceOp>(op);
      auto either = dyn_cast<BinaryOp>(op);
      const bool decided = (either && either.getFn() == BinaryFn::k_bitor && (truth(either.getA()) == true || truth(either.getB()) == true)) ||
                           (reduce && reduce.getKind() == ReduceKind::k_any && truth(reduce.getX()) == true);
      auto less = dyn_cast<CompareOp>(op);
      const bool never = less && less.getPred() == ComparePred::k_lt && isInfinity(less.getA()); // nothing is above it
      if (decided || never)
        constantTruth = constant(b, op->getLoc(), op->getResult(0).getType(), b.getBoolAttr(decided));
      auto branch = dyn_cast<scf::IfOp>(op);
      if (constantTruth) {
        replace(op, constantTruth);
      } else if (branch && truth(branch.getCondition()) == true) {
        Block *taken = branch.thenBlock();
        SmallVector<Value> values(branch.thenYield().getOperands());
        branch.thenYield().erase();
        next = taken->empty() ? next : &taken->front();
        block.getOperations().splice(branch->getIterator(), taken->getOperations());
        replace(op, values);
      } else if (op->getNumRegions() == 0 && op->getNumResults() == 1 && !op->hasTrait<OpTrait::ConstantLike>() && isMemoryEffectFree(op) &&
                 succeeded(b.tryFold(op, folded)) && !folded.empty()) {
        replace(op, folded);
      }
      op = next;
    }
  }

  void rewrite() {
    Location loc = loop.getLoc();
    OpBuilder b(loop);
    auto yield = cast<scf::YieldOp>(body->getTerminator());
    // Carried values that the last products give come anew from what crosses; the others stay.
    SmallVector<unsigned> kept;
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      if (!llvm::is_contained(last, yield.getOperand(i).getDefiningOp<MmaOp>()))
        kept.push_back(i);
    Value runs = CompareOp::create(b, loc, b.getI1Type(), ComparePred::k_lt, loop.getLowerBound(), loop.getUpperBound());
    auto branch = scf::IfOp::create(b, loc, loop.getResultTypes(), runs, /*addThenBlock=*/true, /*addElseBlock=*/true);

    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, loop.getInitArgs());

    b.setInsertionPointToStart(branch.thenBlock());
    const SmallVector<Operation *> ahead = inOrder(front);
    IRMapping start;
    start.map(loop.getInductionVar(), loop.getLowerBound());
    for (auto [arg, init] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getInitArgs()))
      start.map(arg, init);
    cloneAll(ahead, b, start);
    cloneAll(rest, b, start);
    SmallVector<Value> inits{loop.getLowerBound()};
    simplifyStart(*branch.thenBlock(), start);
    for (Value v : crossing)
      inits.push_back(start.lookupOrDefault(v));
    for (unsigned i : kept)
      inits.push_back(start.lookupOrDefault(yield.getOperand(i)));

    Value second = BinaryOp::create(b, loc, loop.getLowerBound().getType(), BinaryFn::k_add, loop.getLowerBound(), loop.getStep());
    auto rotated = scf::ForOp::create(b, loc, second, loop.getUpperBound(), loop.getStep(), inits);
    rotated->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    /// Of the iteration before: its counter and what crosses.
    auto before = [&](ValueRange carried, IRMapping &map) {
      map.map(loop.getInductionVar(), carried[0]);
      for (auto [i, v] : llvm::enumerate(crossing))
        map.map(v, carried[1 + i]);
    };
    {
      OpBuilder::InsertionGuard guard(b);
      Block *to = rotated.getBody();
      if (!to->empty() && to->back().hasTrait<OpTrait::IsTerminator>())
        to->back().erase();
      b.setInsertionPointToEnd(to);
      IRMapping now, old;
      now.map(loop.getInductionVar(), rotated.getInductionVar());
      cloneAll(ahead, b, now);
      before(rotated.getRegionIterArgs(), old);
      cloneLast(b, old);
      for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
        now.map(loop.getRegionIterArg(i), old.lookupOrDefault(yield.getOperand(i)));
      for (auto [n, i] : llvm::enumerate(kept))
        now.map(loop.getRegionIterArg(i), rotated.getRegionIterArgs()[1 + crossing.size() + n]);
      cloneAll(rest, b, now);
      SmallVector<Value> yielded{rotated.getInductionVar()};
      for (Value v : crossing)
        yielded.push_back(now.lookupOrDefault(v));
      for (unsigned i : kept)
        yielded.push_back(now.lookupOrDefault(yield.getOperand(i)));
      scf::YieldOp::create(b, loc, yielded);
    }
    IRMapping end;
    before(rotated.getResults(), end);
    cloneLast(b, end);
    for (auto [n, i] : llvm::enumerate(kept))
      end.map(yield.getOperand(i), rotated.getResult(unsigned(1 + crossing.size() + n)));
    SmallVector<Value> results;
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      results.push_back(end.lookupOrDefault(yield.getOperand(i)));
    for (auto [n, i] : llvm::enumerate(kept)) // one value may be yielded twice
      results[i] = rotated.getResult(unsigned(1 + crossing.size() + n));
    scf::YieldOp::create(b, loc, results);

    loop->replaceAllUsesWith(branch.getResults());
    loop.erase();
  }

  scf::ForOp loop;
  Block *body;
  Value counter;
  bool always;
  SmallVector<MmaOp> first, last;
  SmallVector<Operation *> stores;
  SetVector<Operation *> front, again; ///< ahead of the last products; what they make again
  SmallVector<Operation *> rest;       ///< behind them, in order
  SetVector<Value> crossing;           ///< what they need of the rest of their iteration
};

struct OverlapProducts : sectile::passes::impl::OverlapProductsPassBase<OverlapProducts> {
  using OverlapProductsPassBase::OverlapProductsPassBase;

  void runOnOperation() override {
    if (overlap == 1)
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      Overlapper(loop, overlap == 2).run();
  }
};

} // namespace
