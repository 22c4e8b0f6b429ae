// SPDX-License-Identifier: Apache-2.0
/// \file OrderProducts: waits for asynchronous products.
///
/// Before: tgpu.wgmma whose results anyone may use. After: every other op that uses a result uses that of a
/// tgpu.wgmma_wait, and no result leaves a region but through one, except in loops that only accumulate: there the
/// products of one iteration stay under way while the next is issued. Such a loop waits at its end for the products of
/// earlier iterations, and for all behind it.

#include "passes/Passes.h"
#include "passes/RegisterBudget.h"
#include "passes/Support.h"

#include "ir/WaitGate.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace sectile::passes {
#define GEN_PASS_DEF_ORDERPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

/// Groups that the hardware counts (PTX ISA, wgmma.wait_group).
constexpr size_t mostPending = 7;

bool hasProducts(Operation *op) {
  return op->walk([](tgpu::WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// The products of a loop, if each only adds to a carried value: acc comes from an argument of the loop, or from
/// another product of it, and goes back to the same argument, and nothing else sees it.
SmallVector<tgpu::WgmmaOp> accumulating(scf::ForOp loop) {
  SmallVector<tgpu::WgmmaOp> products;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (op.getNumRegions() && hasProducts(&op))
      return {};
    if (auto product = dyn_cast<tgpu::WgmmaOp>(op))
      products.push_back(product);
  }
  if (products.size() > mostPending)
    return {};
  for (tgpu::WgmmaOp product : products) {
    // Registers of a, and buffers that threads fill, change in the next iteration.
    if (isTile(product.getA()) || !product.getResult().hasOneUse() || !product.getAcc().hasOneUse())
      return {};
    for (Value buffer : {product.getA(), Value(product.getB())})
      if (buffer.getDefiningOp<tgpu::BufferAllocOp>())
        return {};
    Value start = product.getAcc();
    while (auto before = start.getDefiningOp<tgpu::WgmmaOp>()) {
      if (before->getBlock() != loop.getBody())
        return {};
      start = before.getAcc();
    }
    OpOperand *use = &*product.getResult().use_begin();
    while (auto next = dyn_cast<tgpu::WgmmaOp>(use->getOwner())) {
      if (next->getBlock() != loop.getBody() || next.getAcc() != use->get())
        return {};
      use = &*next.getResult().use_begin();
    }
    auto arg = dyn_cast<BlockArgument>(start);
    if (!arg || arg.getOwner() != loop.getBody() || arg.getArgNumber() == 0 ||
        use->getOwner() != loop.getBody()->getTerminator() || use->getOperandNumber() != arg.getArgNumber() - 1)
      return {};
  }
  return products;
}

class Orderer {
public:
  explicit Orderer(func::FuncOp func) : layouts(func.getContext()) {
    if (auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr))
      mostAtWait = consumerRegisters(launch.getWarps()) - registersBesideTiles;
  }

  void visit(Block &block) {
    SmallVector<tgpu::WgmmaOp> underWay;
    auto waitFor = [&](Operation *user, size_t pending) {
      // All but the newest `pending`.
      const size_t done = underWay.size() - pending;
      SmallVector<Value> values;
      for (tgpu::WgmmaOp product : ArrayRef(underWay).take_front(done)) {
        // The accumulators of a chain are one set of registers: its last product names them.
        bool chained = llvm::any_of(product.getResult().getUsers(), [&](Operation *u) {
          return llvm::is_contained(underWay, dyn_cast<tgpu::WgmmaOp>(u));
        });
        if (!chained)
          values.push_back(product.getResult());
      }
      const size_t products = values.size();
      SmallVector<Operation *> later;
      if (done && pending == 0)
        sumsFirst(user, ArrayRef(values).take_front(products));
      if (done)
        later = workBeside(underWay.front(), user, values);
      OpBuilder b(user);
      auto wait = tgpu::WgmmaWaitOp::create(b, user->getLoc(), ValueRange(values).getTypes(), pending, values);
      gate(wait, products);
      for (Operation *op : later)
        op->moveAfter(wait);
      for (auto [i, value, ready] : llvm::enumerate(values, wait.getResults()))
        value.replaceUsesWithIf(ready, [&](OpOperand &use) {
          return use.getOwner() != wait && (i < products || isBehind(use.getOwner(), wait));
        });
      // A mask stands before what it chooses: threads have few predicates.
      for (Operation *op : later)
        if (tileir::elementOf(op->getResult(0).getType()).isInteger(1)) {
          Operation *firstUser = nullptr;
          for (Operation *other : op->getUsers())
            if (Operation *here = op->getBlock()->findAncestorOpInBlock(*other); here && (!firstUser || here->isBeforeInBlock(firstUser)))
              firstUser = here;
          if (firstUser && firstUser->getBlock() == op->getBlock())
            op->moveBefore(firstUser);
        }
      underWay.erase(underWay.begin(), underWay.begin() + ptrdiff_t(done));
    };
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        if (!underWay.empty())
          waitFor(&op, 0);
        break;
      }
      if (op.getNumRegions() && hasProducts(&op)) {
        if (!underWay.empty())
          waitFor(&op, 0);
        visitRegions(&op);
        continue;
      }
      // The newest product whose result this op needs.
      auto product = dyn_cast<tgpu::WgmmaOp>(op);
      size_t pending = underWay.size();
      for (auto [i, before] : llvm::enumerate(underWay)) {
        const bool needs = op.walk([&](Operation *inner) {
                               for (OpOperand &use : inner->getOpOperands())
                                 if (use.get() == before.getResult() &&
                                     !(product && &use == &product.getAccMutable()))
                                   return WalkResult::interrupt();
                               return WalkResult::advance();
                             }).wasInterrupted();
        // What threads write next is not read by a product any more.
        bool overwrites = false;
        if (auto copy = dyn_cast<tgpu::CopyOp>(op))
          overwrites = copy.getBuffer() == before.getA() || copy.getBuffer() == before.getB();
        if (needs || overwrites)
          pending = underWay.size() - 1 - i;
      }
      if (pending < underWay.size())
        waitFor(&op, pending);
      if (product) {
        if (underWay.size() == mostPending)
          waitFor(&op, mostPending - 1);
        underWay.push_back(product);
      }
    }
  }

private:
  static bool isBehind(Operation *op, Operation *wait) {
    Operation *here = wait->getBlock()->findAncestorOpInBlock(*op);
    return here && wait->isBeforeInBlock(here);
  }

  /// What threads compute while a product with operands in registers is under way goes through its wait too. What they make
  /// narrower than a register may not lie in registers that the product still reads, as operands of the next such product would:
  /// it comes behind the wait, where what it is made from fits into registers until then (freest), else through the wait as well,
  /// which gives it registers of its own (see waitForGroups). Masks come behind every wait: they are cheaper made twice than
  /// kept. Returns what comes behind, the last one first.
  SmallVector<Operation *> workBeside(tgpu::WgmmaOp product, Operation *user, SmallVectorImpl<Value> &values) {
    SetVector<Operation *> later;
    auto isUsedLater = [&](Operation *other) {
      Operation *here = user->getBlock()->findAncestorOpInBlock(*other);
      return here && (!here->isBeforeInBlock(user) || later.contains(here));
    };
    const bool inRegisters = isTile(product.getA());
    auto bitsOf = [&](Value v) -> unsigned {
      if (!isTile(v))
        return 0;
      Type element = tileir::elementOf(v.getType());
      return element.isInteger(1) ? 1 : inRegisters && isa<FloatType>(element) ? element.getIntOrFloatBitWidth() : 0;
    };
    auto collect = [&](bool narrowToo) {
      later.clear();
      SmallVector<Value> through;
      for (Operation *op = user->getPrevNode(); op != product; op = op->getPrevNode()) {
        if (op->getNumResults() != 1 || isa<tgpu::WgmmaOp, tgpu::WgmmaWaitOp>(op))
          continue;
        Value v = op->getResult(0);
        const unsigned bits = bitsOf(v);
        const bool isNarrow = bits && bits < 32 && !op->getNumRegions() && isMemoryEffectFree(op);
        if (isNarrow && (bits == 1 || !narrowToo) && llvm::all_of(v.getUsers(), isUsedLater))
          later.insert(op);
        else if ((bits >= 32 || (isNarrow && bits == 16)) && !isa<tileir::ConstantOp, tileir::SplatOp, tileir::BroadcastOp>(op) &&
                 llvm::any_of(v.getUsers(), isUsedLater))
          through.push_back(v);
      }
      return through;
    };
    SmallVector<Value> through = collect(/*narrowToo=*/false);
    atWait = registersAt(user, product, isUsedLater);
    if (atWait > mostAtWait && llvm::any_of(later, [&](Operation *op) { return bitsOf(op->getResult(0)) == 16; }))
      through = collect(/*narrowToo=*/true);
    values.append(through.rbegin(), through.rend());
    return later.takeVector();
  }

  /// Sums of rows that need none of the products come before the wait for them.
  void sumsFirst(Operation *user, ArrayRef<Value> awaited) {
    constexpr int few = 4;
    DenseSet<Operation *> needing; ///< something that is not there before the wait
    for (Operation *op = user, *next = nullptr; op && !op->hasTrait<OpTrait::IsTerminator>(); op = next) {
      next = op->getNextNode();
      auto comesLate = [&](Value v) { return llvm::is_contained(awaited, v) || needing.contains(v.getDefiningOp()); };
      auto sum = dyn_cast<tgpu::ReduceOp>(op);
      const bool isTileOp = op->getNumResults() > 0 && op->getNumRegions() == 0 && isTile(op->getResult(0)) && isMemoryEffectFree(op);
      const bool isOfSums = isTileOp && ((sum && sum.getKind() == tileir::ReduceKind::k_sum) || isa<tileir::ReshapeOp>(op) ||
                                         (isa<tileir::BinaryOp, tileir::FmaOp, tileir::BroadcastOp>(op) && layouts.of(op->getResult(0)).numRegs() <= few));
      if (op != user && isOfSums && llvm::none_of(op->getOperands(), comesLate))
        op->moveBefore(user);
      else
        needing.insert(op);
    }
  }

  /// Before a wait for all products threads end what they compute beside them, or half of it where registers are few. A sum over a row
  /// tells: it is short, and needs all of the row.
  void gate(tgpu::WgmmaWaitOp wait, size_t products) {
    constexpr int mostTold = 4, halves = 2;
    constexpr int64_t spare = 16;
    if (wait.getPending() != 0)
      return;
    int64_t index = -1, registers = 0;
    for (size_t i = products; i < wait.getValues().size(); ++i) {
      Value v = wait.getValues()[i];
      if (int n = layouts.of(v).numRegs(); n <= mostTold && tileir::elementOf(v.getType()).isF32() && sumsRows(v) && n > registers) {
        index = int64_t(i);
        registers = n;
      }
    }
    if (index < 0)
      return;
    if (atWait > mostAtWait - spare && registers > 1)
      registers /= halves;
    wait->setAttr(tgpu::gateAttr, DenseI64ArrayAttr::get(wait.getContext(), {index, registers}));
  }
  /// A row's sum, or what was made of one.
  static bool sumsRows(Value v) {
    Operation *op = v.getDefiningOp();
    if (auto reduce = dyn_cast_or_null<tgpu::ReduceOp>(op))
      return reduce.getKind() == tileir::ReduceKind::k_sum;
    return isa_and_nonnull<tileir::BinaryOp, tileir::FmaOp, tileir::ReshapeOp>(op) && llvm::any_of(op->getOperands(), [](Value o) { return sumsRows(o); });
  }

  /// Registers of a thread that tiles have in front of `user`.
  int64_t registersAt(Operation *user, tgpu::WgmmaOp product, llvm::function_ref<bool(Operation *)> isUsedLater) {
    Block *block = user->getBlock();
    SetVector<Value> alive;
    auto add = [&](Value v) {
      if (isTile(v) && !isa_and_nonnull<tileir::ConstantOp, tileir::SplatOp, tileir::IotaOp, tileir::BroadcastOp>(v.getDefiningOp()))
        alive.insert(v);
    };
    for (Operation *op = product; op != user; op = op->getNextNode())
      if (auto underWay = dyn_cast<tgpu::WgmmaOp>(op))
        add(underWay.getA());
    for (Operation &op : *block)
      op.walk([&](Operation *inner) {
        for (Value v : inner->getOperands()) {
          if (v.getParentBlock() != block && !block->getParentOp()->isAncestor(v.getParentBlock()->getParentOp()))
            add(v); // for all iterations
          else if (v.getParentBlock() == block && isUsedLater(inner) && (!v.getDefiningOp() || v.getDefiningOp()->isBeforeInBlock(user)) &&
                   (!v.getDefiningOp() || !isUsedLater(v.getDefiningOp())))
            add(v);
        }
      });
    constexpr int64_t registerBytes = 4;
    int64_t bytes = 0;
    for (Value v : alive)
      if (Type element = tileir::elementOf(v.getType()); !element.isInteger(1))
        bytes += layouts.of(v).numRegs() * int64_t(byteSize(*tileir::dtypeOfType(element)));
    return bytes / registerBytes;
  }

  void visitRegions(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      SmallVector<tgpu::WgmmaOp> products = accumulating(loop);
      if (!products.empty()) {
        Operation *end = loop.getBody()->getTerminator();
        OpBuilder b(end);
        tgpu::WgmmaWaitOp::create(b, products.back()->getLoc(), TypeRange(), products.size(), ValueRange());
        SmallVector<Value> values;
        for (OpOperand &yielded : end->getOpOperands())
          if (llvm::is_contained(products, yielded.get().getDefiningOp<tgpu::WgmmaOp>()))
            values.push_back(loop.getResult(yielded.getOperandNumber()));
        b.setInsertionPointAfter(loop);
        auto wait = tgpu::WgmmaWaitOp::create(b, loop.getLoc(), ValueRange(values).getTypes(), 0, values);
        for (auto [value, ready] : llvm::zip_equal(values, wait.getResults()))
          value.replaceUsesWithIf(ready, [&](OpOperand &use) { return use.getOwner() != wait; });
        return;
      }
    }
    for (Region &region : op->getRegions())
      for (Block &block : region)
        visit(block);
  }

  LayoutCache layouts;
  int64_t mostAtWait = 0;
  int64_t atWait = 0; ///< registers of tiles at the wait looked at
};

struct OrderProducts : sectile::passes::impl::OrderProductsPassBase<OrderProducts> {
  void runOnOperation() override {
    if (hasProducts(getOperation()))
      Orderer(getOperation()).visit(getOperation().getBody().front());
  }
};

} // namespace
