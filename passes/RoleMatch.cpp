// SPDX-License-Identifier: Apache-2.0
#include "passes/RoleMatch.h"
#include "passes/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace sectile::passes {

RoleMatch::RoleMatch(tgpu::RolesOp roles) : roles(roles) {
  roles->getParentOfType<func::FuncOp>().walk([&](tgpu::PipeCreateOp op) {
    const int64_t number = int64_t(pipes.size());
    pipes[op.getPipe()] = number;
  });
}

LogicalResult RoleMatch::run() {
  return match(&roles.getProducer().front(), &roles.getConsumer().front(), roles.getLoc());
}

// --- slots, loops and branches
// ---------------------------------------------------------------------------------------------------

RoleMatch::Items RoleMatch::itemsOf(Block *block) const {
  Items items;
  if (block)
    for (Operation &op : *block)
      if (op.walk([](Operation *inner) {
              return isa<tgpu::PipeAcquireOp, tgpu::PipeWaitOp>(inner) ? WalkResult::interrupt()
                                                                        : WalkResult::advance();
            }).wasInterrupted())
        items.push_back(&op);
  return items;
}

std::string RoleMatch::describe(Operation *item) const {
  if (!item)
    return "nothing";
  if (auto acquire = dyn_cast<tgpu::PipeAcquireOp>(item))
    return "a slot of pipe " + std::to_string(numberOf(acquire.getPipe()));
  if (auto wait = dyn_cast<tgpu::PipeWaitOp>(item))
    return "a slot of pipe " + std::to_string(numberOf(wait.getPipe()));
  return isa<scf::IfOp>(item) ? "a branch" : "a loop (" + item->getName().getStringRef().str() + ")";
}

LogicalResult RoleMatch::match(Block *producer, Block *consumer, Location around) {
  const Items p = itemsOf(producer), c = itemsOf(consumer);
  for (size_t i = 0; i < std::max(p.size(), c.size()); ++i) {
    Operation *ours = i < p.size() ? p[i] : nullptr, *theirs = i < c.size() ? c[i] : nullptr;
    const std::string fills = describe(ours), awaits = describe(theirs);
    if (fills != awaits)
      return mlir::emitError(theirs ? theirs->getLoc() : ours ? ours->getLoc() : around)
             << "the producer goes on with " << fills << ", the consumers with " << awaits
             << " [check_pipeline_c7]; both roles must take the same slots in the same order";
    if (failed(matchItems(ours, theirs)))
      return failure();
  }
  return success();
}

/// A value as the user may know it.
static std::string text(Value v) {
  IntegerAttr number;
  if (matchPattern(v, m_Constant(&number)))
    return std::to_string(number.getValue().getSExtValue());
  if (Operation *op = v.getDefiningOp())
    return "a result of " + op->getName().getStringRef().str();
  auto arg = cast<BlockArgument>(v);
  return "argument " + std::to_string(arg.getArgNumber()) + " of " +
         arg.getOwner()->getParentOp()->getName().getStringRef().str();
}

LogicalResult RoleMatch::differ(Operation *at, const char *what, Value p, Value c) {
  return mlir::emitError(at->getLoc()) << what << " is " << text(p) << " in the producer, and " << text(c)
                                       << " in the consumers, not proved to be the same [check_pipeline_c8]; both "
                                          "roles must compute it in the same way";
}

LogicalResult RoleMatch::matchItems(Operation *p, Operation *c) {
  if (auto loop = dyn_cast<scf::ForOp>(p)) {
    auto other = cast<scf::ForOp>(c);
    if (!same(loop.getLowerBound(), other.getLowerBound()))
      return differ(c, "the lower bound", loop.getLowerBound(), other.getLowerBound());
    if (!same(loop.getUpperBound(), other.getUpperBound()))
      return differ(c, "the upper bound", loop.getUpperBound(), other.getUpperBound());
    if (!same(loop.getStep(), other.getStep()) || !align(p, c))
      return differ(c, "the step", loop.getStep(), other.getStep());
    return match(loop.getBody(), other.getBody(), c->getLoc());
  }
  if (auto branch = dyn_cast<scf::IfOp>(p)) {
    auto other = cast<scf::IfOp>(c);
    if (!same(branch.getCondition(), other.getCondition()))
      return differ(c, "the condition", branch.getCondition(), other.getCondition());
    if (failed(match(branch.thenBlock(), other.thenBlock(), c->getLoc())))
      return failure();
    return match(branch.elseBlock(), other.elseBlock(), c->getLoc());
  }
  if (auto loop = dyn_cast<scf::WhileOp>(p)) {
    auto other = cast<scf::WhileOp>(c);
    if (!align(p, c))
      return differ(c, "the condition", loop.getConditionOp().getCondition(), other.getConditionOp().getCondition());
    if (failed(match(loop.getBeforeBody(), other.getBeforeBody(), c->getLoc())))
      return failure();
    return match(loop.getAfterBody(), other.getAfterBody(), c->getLoc());
  }
  return success(); // slots of one pipe
}

// --- equal scalars
// ---------------------------------------------------------------------------------------------------

bool RoleMatch::aligned(Operation *p, Operation *c) const { return loops.lookup(p) == c && loops.lookup(c) == p; }

/// Whether both loops make the same number of trips; then trip i of one stands for trip i of the other. A loop has one
/// partner: arguments of two loops with equal bounds would not be equal.
bool RoleMatch::align(Operation *p, Operation *c) {
  if (loops.count(p) || loops.count(c))
    return aligned(p, c);
  if (auto loop = dyn_cast<scf::ForOp>(p)) {
    auto other = dyn_cast<scf::ForOp>(c);
    if (!other || loop.getUnsignedCmp() != other.getUnsignedCmp() ||
        !same(loop.getLowerBound(), other.getLowerBound()) || !same(loop.getUpperBound(), other.getUpperBound()) ||
        !same(loop.getStep(), other.getStep()))
      return false;
    loops[p] = c;
    loops[c] = p;
    return true;
  }
  auto loop = dyn_cast<scf::WhileOp>(p), other = dyn_cast<scf::WhileOp>(c);
  if (!loop || !other)
    return false;
  loops[p] = c; // by induction over the trips, as for carried values
  loops[c] = p;
  return same(loop.getConditionOp().getCondition(), other.getConditionOp().getCondition());
}

bool RoleMatch::same(Value p, Value c) {
  if (p == c)
    return true; // from above the roles: no region sees the other's values
  if (auto found = known.find({p, c}); found != known.end())
    return found->second;
  known[{p, c}] = true;
  return known[{p, c}] = prove(p, c);
}

bool RoleMatch::prove(Value p, Value c) {
  if (p.getType() != c.getType() || isa<BlockArgument>(p) != isa<BlockArgument>(c))
    return false;
  if (auto arg = dyn_cast<BlockArgument>(p))
    return proveArguments(arg, cast<BlockArgument>(c));
  return proveResults(cast<OpResult>(p), cast<OpResult>(c));
}

bool RoleMatch::proveArguments(BlockArgument p, BlockArgument c) {
  Operation *ours = p.getOwner()->getParentOp(), *theirs = c.getOwner()->getParentOp();
  if (!aligned(ours, theirs))
    return false;
  if (auto loop = dyn_cast<scf::ForOp>(ours)) {
    auto other = cast<scf::ForOp>(theirs);
    const bool counts = p == loop.getInductionVar();
    if (counts || c == other.getInductionVar())
      return counts && c == other.getInductionVar();
    const unsigned i = p.getArgNumber() - 1, j = c.getArgNumber() - 1;
    return same(loop.getInitArgs()[i], other.getInitArgs()[j]) &&
           same(loop.getYieldedValues()[i], other.getYieldedValues()[j]);
  }
  auto loop = cast<scf::WhileOp>(ours), other = cast<scf::WhileOp>(theirs);
  const unsigned i = p.getArgNumber(), j = c.getArgNumber();
  const bool before = p.getOwner() == loop.getBeforeBody();
  if (before != (c.getOwner() == other.getBeforeBody()))
    return false;
  if (before)
    return same(loop.getInits()[i], other.getInits()[j]) &&
           same(loop.getYieldOp().getOperands()[i], other.getYieldOp().getOperands()[j]);
  return same(loop.getConditionOp().getArgs()[i], other.getConditionOp().getArgs()[j]);
}

/// Reads of what no op of the kernel writes.
bool RoleMatch::isConstantRead(Operation *op) const {
  Value x;
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
    x = load.getX();
  else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
    x = gather.getX();
  if (!x)
    return false;
  Value root = tileir::rootTensor(x);
  return !roles->getParentOfType<func::FuncOp>()
              .walk([&](Operation *other) {
                Value written;
                if (auto store = dyn_cast<tgpu::GlobalStoreOp>(other))
                  written = store.getX();
                else if (auto store = dyn_cast<tgpu::BulkStoreOp>(other))
                  written = store.getX();
                return written && tileir::rootTensor(written) == root ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

bool RoleMatch::proveResults(OpResult p, OpResult c) {
  Operation *ours = p.getOwner(), *theirs = c.getOwner();
  const unsigned i = p.getResultNumber(), j = c.getResultNumber();
  if (ours->getName() != theirs->getName())
    return false;
  if (auto loop = dyn_cast<scf::ForOp>(ours))
    return align(ours, theirs) && same(loop.getRegionIterArgs()[i], cast<scf::ForOp>(theirs).getRegionIterArgs()[j]);
  if (auto loop = dyn_cast<scf::WhileOp>(ours))
    return align(ours, theirs) && same(loop.getConditionOp().getArgs()[i],
                                       cast<scf::WhileOp>(theirs).getConditionOp().getArgs()[j]);
  if (auto branch = dyn_cast<scf::IfOp>(ours)) {
    auto other = cast<scf::IfOp>(theirs);
    return same(branch.getCondition(), other.getCondition()) &&
           same(branch.thenYield().getOperand(i), other.thenYield().getOperand(j)) &&
           same(branch.elseYield().getOperand(i), other.elseYield().getOperand(j));
  }
  if (i != j || ours->getNumRegions() || ours->getAttrDictionary() != theirs->getAttrDictionary() ||
      ours->getNumOperands() != theirs->getNumOperands())
    return false;
  if (!isMemoryEffectFree(ours) && !isConstantRead(ours))
    return false;
  return llvm::all_of(llvm::zip_equal(ours->getOperands(), theirs->getOperands()),
                      [&](auto pair) { return same(std::get<0>(pair), std::get<1>(pair)); });
}

} // namespace sectile::passes
