// SPDX-License-Identifier: Apache-2.0
/// \file PrefetchLoads: what the next trip of a loop loads is under way while this one is computed.
///
/// Before: loops whose tiles are loaded in the trip that uses them, no barriers yet. After: the same, or the loop carries
/// tiles in the registers that they are loaded into: those of the first trip are loaded in front of it, those of the next
/// one in the midst of each trip. Behind the last trip nothing is loaded, as no element lies inside the bounds there.
///
/// A load may move in front of the rest of the trip before if its place follows from the loop's counter and from values of
/// outside, and if nothing that the loop writes may lie where it reads. Programs of a persistent kernel know nothing of
/// each other: there only what the program itself writes before the load counts.
///
/// By rule it is done where the threads of a block wait for each other in every trip, as then no other warp of the block loads
/// meanwhile, and where a trip is long: loops over programs, and loops that store. It costs the registers of the tiles.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace sectile::passes {
#define GEN_PASS_DEF_PREFETCHLOADSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Registers of a thread for all that a loop loads ahead, by rule.
constexpr int64_t mostRegisters = 40;

bool isFree(Operation *op) { return isMemoryEffectFree(op) && op->getNumRegions() == 0; }

/// A load that can be made one trip ahead, and what its place is computed from in the loop.
struct Ahead {
  tgpu::GlobalLoadOp load;
  llvm::SetVector<Operation *> needs; ///< in order
};

class Loop {
public:
  Loop(scf::ForOp loop, LayoutCache &layouts) : loop(loop), layouts(layouts) {
    isProgramLoop = !loop.getBody()->getOps<tgpu::ProgramOp>().empty();
  }

  void run(bool byRule) {
    if (loop.getUnsignedCmp() || !isa<IndexType>(loop.getInductionVar().getType()))
      return;
    SmallVector<Ahead> all;
    int64_t registers = 0;
    for (auto load : loop.getBody()->getOps<tgpu::GlobalLoadOp>()) {
      Ahead a{load, {}};
      if (!isTile(load.getResult()) || !collect(a) || isWrittenBefore(load))
        continue;
      const int64_t words = (layouts.of(load.getResult()).numRegs() * bytesOf(load) + 3) / 4;
      if (byRule && registers + words > mostRegisters)
        continue;
      registers += words;
      all.push_back(std::move(a));
    }
    if (all.empty() || (byRule && !(threadsMeet() && (isProgramLoop || stores()))))
      return;
    noteChoice(loop->getParentOfType<func::FuncOp>(), "prefetch: of " + Twine(all.size()) + (all.size() == 1 ? " load" : " loads") + " what the next " +
                                                          (isProgramLoop ? "program" : "trip") + " needs is under way, in " + Twine(registers) +
                                                          " registers of a thread");
    rotate(all);
  }

private:
  static int64_t bytesOf(tgpu::GlobalLoadOp load) { return int64_t(byteSize(*dtypeOfType(elementOf(load.getType())))); }

  /// What the load's place needs of the loop's body; false if that is more than its counter.
  bool collect(Ahead &a) {
    SmallVector<Operation *> needs;
    auto need = [&](auto &self, Value v) -> bool {
      if (v == loop.getInductionVar() || loop.isDefinedOutsideOfLoop(v))
        return true;
      Operation *op = v.getDefiningOp();
      if (!op || op->getBlock() != loop.getBody() || !isFree(op))
        return false;
      if (llvm::is_contained(needs, op))
        return true;
      for (Value operand : op->getOperands())
        if (!self(self, operand))
          return false;
      needs.push_back(op);
      return true;
    };
    for (Value operand : a.load->getOperands())
      if (!need(need, operand))
        return false;
    // What never changes is not loaded again.
    bool moves = llvm::is_contained(a.load->getOperands(), loop.getInductionVar());
    for (Operation *op : needs) {
      a.needs.insert(op);
      moves |= llvm::is_contained(op->getOperands(), loop.getInductionVar());
    }
    return moves;
  }

  /// The trip may write what the load reads one trip later: in an ordinary loop anywhere, in that of programs before it.
  bool isWrittenBefore(tgpu::GlobalLoadOp load) {
    auto func = loop->getParentOfType<func::FuncOp>();
    bool found = false;
    loop.getBody()->walk([&](Operation *op) {
      Value x;
      if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op))
        x = store.getX();
      else if (auto store = dyn_cast<tgpu::BulkStoreOp>(op))
        x = store.getX();
      if (!x)
        return;
      Operation *inBody = loop.getBody()->findAncestorOpInBlock(*op);
      if (isProgramLoop && load->isBeforeInBlock(inBody))
        return;
      found |= mayShareMemory(func, x, load.getX());
    });
    return found;
  }

  bool stores() {
    return loop.getBody()->walk([](tgpu::GlobalStoreOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }

  /// Threads of the block exchange something in each trip.
  bool threadsMeet() {
    return loop.getBody()->walk([](Operation *op) {
                 return isa<tgpu::CopyOp, tgpu::CopyOutOp, tgpu::PeerCopyOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted();
  }

  /// Where the load of the next trip stands: behind the last use of what this trip loaded, if that is near, so that both may
  /// have the same registers.
  static Operation *placeOf(tgpu::GlobalLoadOp load) {
    Operation *last = load;
    for (Operation *user : load->getUsers())
      if (user->getBlock() == load->getBlock() && last->isBeforeInBlock(user))
        last = user;
      else if (user->getBlock() != load->getBlock())
        return load;
    for (Operation *op = load->getNextNode(); op != last && op; op = op->getNextNode())
      if (!isFree(op) && !isa<tgpu::GlobalLoadOp>(op))
        return load;
    return last != load && isFree(last) ? last : load.getOperation();
  }

  /// The load of the trip with this counter, which moves nothing unless `valid`.
  static Value loadFor(OpBuilder &b, const Ahead &a, Value counterOfLoop, Value counter, Value valid) {
    IRMapping map;
    map.map(counterOfLoop, counter);
    for (Operation *op : a.needs)
      b.clone(*op, map);
    tgpu::GlobalLoadOp load = a.load;
    Location loc = load.getLoc();
    SmallVector<Value> offsets, los, his;
    for (Value v : load.getOffsets())
      offsets.push_back(map.lookupOrDefault(v));
    for (Value v : load.getLo())
      los.push_back(map.lookupOrDefault(v));
    for (Value v : load.getHi())
      his.push_back(map.lookupOrDefault(v));
    SmallVector<int64_t> axes(load.getAxes());
    ArrayRef<int64_t> shape = shapeOf(load.getType());
    const int64_t axis = llvm::min_element(shape) - shape.begin(); // few registers differ along it
    const size_t at = size_t(llvm::lower_bound(axes, axis) - axes.begin());
    if (at == axes.size() || axes[at] != axis) {
      axes.insert(axes.begin() + at, axis);
      los.insert(los.begin() + at, indexConstant(b, loc, 0));
      his.insert(his.begin() + at, indexConstant(b, loc, shape[size_t(axis)]));
    }
    his[at] = select(b, loc, valid, his[at], indexConstant(b, loc, 0));
    auto ahead = tgpu::GlobalLoadOp::create(b, loc, load.getType(), map.lookupOrDefault(load.getX()), offsets, axes, los, his, load.getPad());
    for (NamedAttribute attr : load->getDiscardableAttrs())
      ahead->setDiscardableAttr(attr.getName(), attr.getValue());
    return ahead;
  }

  void rotate(ArrayRef<Ahead> all) {
    Location loc = loop.getLoc();
    OpBuilder b(loop);
    Value any = compare(b, loc, ComparePred::k_lt, loop.getLowerBound(), loop.getUpperBound());
    SmallVector<Value> first;
    for (const Ahead &a : all)
      first.push_back(loadFor(b, a, loop.getInductionVar(), loop.getLowerBound(), any));
    b.setInsertionPointToStart(loop.getBody());
    Value counter = loop.getInductionVar();
    Value next = binary(b, loc, BinaryFn::k_add, counter, loop.getStep());
    Value more = compare(b, loc, ComparePred::k_lt, next, loop.getUpperBound());
    SmallVector<Value> ahead;
    for (const Ahead &a : all) {
      b.setInsertionPointAfter(placeOf(a.load));
      ahead.push_back(loadFor(b, a, counter, next, more));
    }
    const unsigned carried = loop.getNumRegionIterArgs();
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    auto grown = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return ahead; }));
    for (auto [i, a] : llvm::enumerate(all)) {
      tgpu::GlobalLoadOp load = a.load;
      load.getResult().replaceAllUsesWith(grown.getRegionIterArg(carried + unsigned(i)));
      load.erase();
    }
  }

  scf::ForOp loop;
  LayoutCache &layouts;
  bool isProgramLoop = false;
};

struct PrefetchLoads : sectile::passes::impl::PrefetchLoadsPassBase<PrefetchLoads> {
  using PrefetchLoadsPassBase::PrefetchLoadsPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    // Roles load ahead through pipes; products want the registers.
    const bool isPiped = func.walk([](Operation *op) {
                               return isa<tgpu::RolesOp, tgpu::StageLoadOp, tgpu::WgmmaOp, tgpu::MmaSyncOp, tgpu::MmaFmaOp>(op)
                                          ? WalkResult::interrupt()
                                          : WalkResult::advance();
                             }).wasInterrupted();
    if (isPiped || prefetch == 1)
      return;
    LayoutCache layouts(&getContext());
    SmallVector<scf::ForOp> loops;
    func.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      Loop(loop, layouts).run(prefetch == 0);
  }
};

} // namespace
