// SPDX-License-Identifier: Apache-2.0
#include "passes/RoleSlice.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace sectile::passes {

namespace {

bool isKernel(Operation *op) { return isa<func::FuncOp>(op); }

bool hasTiles(Operation *op) {
  auto isTileType = [](Type t) { return isa<RankedTensorType>(t); };
  return llvm::any_of(op->getOperandTypes(), isTileType) || llvm::any_of(op->getResultTypes(), isTileType);
}

/// The op of the program itself that is or contains `op`: in a persistent kernel the loop over programs is around it.
Operation *topOf(Operation *op) {
  auto isProgram = [](Operation *parent) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    return isKernel(parent) || (loop && !loop.getBody()->getOps<tgpu::ProgramOp>().empty());
  };
  while (!isProgram(op->getParentOp()))
    op = op->getParentOp();
  return op;
}

/// Reads of memory that nothing in this kernel writes: of arguments that are only read, where nothing is stored
/// before.
bool readsConstantScalar(Operation *op) {
  Value x;
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
    x = load.getX();
  else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
    x = gather.getX();
  if (!x)
    return false;
  bool writes = false;
  Operation *top = topOf(op);
  auto func = op->getParentOfType<func::FuncOp>();
  func.walk([&](Operation *store) {
    Value to;
    if (auto s = dyn_cast<tgpu::GlobalStoreOp>(store))
      to = s.getX();
    else if (auto s = dyn_cast<tgpu::BulkStoreOp>(store))
      to = s.getX();
    if (!to)
      return;
    // Stores behind the outermost loop around the read cannot come before it.
    Operation *storeTop = topOf(store);
    if (storeTop == top || storeTop->getBlock() != top->getBlock() || storeTop->isBeforeInBlock(top))
      writes = writes || mayShareMemory(func, to, x);
  });
  return !writes;
}

/// What runs in one thread: no tiles, and nothing that other threads must see.
bool isScalar(Operation *op) {
  if (hasTiles(op))
    return false;
  return (op->getNumRegions() == 0 && isMemoryEffectFree(op)) || readsConstantScalar(op);
}

} // namespace

bool RoleSlice::add(Operation *op) {
  auto oldValues = values;
  auto oldOps = ops;
  bool good = llvm::all_of(op->getOperands(), [&](Value v) { return markValue(v); });
  ops.insert(op);
  for (Operation *parent = op->getParentOp(); good && !isKernel(parent); parent = parent->getParentOp())
    good = markOp(parent);
  if (!good) {
    values = std::move(oldValues);
    ops = std::move(oldOps);
  }
  return good;
}

bool RoleSlice::markValue(Value v) {
  if (!values.insert(v).second)
    return true;
  if (isTile(v))
    return false;
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    Operation *parent = arg.getOwner()->getParentOp();
    if (isKernel(parent))
      return true;
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      if (arg == loop.getInductionVar())
        return markOp(loop);
      const unsigned i = arg.getArgNumber() - 1;
      return markOp(loop) && markValue(loop.getInitArgs()[i]) && markValue(loop.getYieldedValues()[i]);
    }
    if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
      const unsigned i = arg.getArgNumber();
      if (arg.getOwner() == loop.getBeforeBody())
        return markOp(loop) && markValue(loop.getInits()[i]) && markValue(loop.getYieldOp().getOperands()[i]);
      return markOp(loop) && markValue(loop.getConditionOp().getArgs()[i]);
    }
    return false;
  }
  Operation *op = v.getDefiningOp();
  const unsigned i = cast<OpResult>(v).getResultNumber();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return markOp(op) && markValue(loop.getRegionIterArgs()[i]);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return markOp(op) && markValue(loop.getConditionOp().getArgs()[i]);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return markOp(op) && markValue(branch.thenYield().getOperand(i)) && markValue(branch.elseYield().getOperand(i));
  return markOp(op) && llvm::all_of(op->getOperands(), [&](Value x) { return markValue(x); });
}

bool RoleSlice::markOp(Operation *op) {
  if (!ops.insert(op).second)
    return true;
  bool good = true;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    good = markValue(loop.getLowerBound()) && markValue(loop.getUpperBound()) && markValue(loop.getStep());
  else if (auto loop = dyn_cast<scf::WhileOp>(op))
    good = markValue(loop.getConditionOp().getCondition());
  else if (auto branch = dyn_cast<scf::IfOp>(op))
    good = markValue(branch.getCondition());
  else
    good = isScalar(op);
  for (Operation *parent = op->getParentOp(); good && !isKernel(parent); parent = parent->getParentOp())
    good = markOp(parent);
  return good;
}

void RoleSlice::copy(Block &from, OpBuilder &b, IRMapping &map,
                     llvm::function_ref<bool(Operation *, OpBuilder &, IRMapping &)> emit) const {
  for (Operation &op : from.without_terminator())
    if (ops.contains(&op) && !emit(&op, b, map))
      copyOp(&op, b, map, emit);
}

void RoleSlice::copyOp(Operation *op, OpBuilder &b, IRMapping &map,
                       llvm::function_ref<bool(Operation *, OpBuilder &, IRMapping &)> emit) const {
  const Location loc = op->getLoc();
  auto mapped = [&](Value v) { return map.lookupOrDefault(v); };
  auto needed = [&](ValueRange range) {
    SmallVector<unsigned> r;
    for (auto [i, v] : llvm::enumerate(range))
      if (values.contains(v))
        r.push_back(unsigned(i));
    return r;
  };
  auto pick = [&](ValueRange range, ArrayRef<unsigned> which) {
    SmallVector<Value> r;
    for (unsigned i : which)
      r.push_back(mapped(range[i]));
    return r;
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    SmallVector<unsigned> carried = needed(loop.getRegionIterArgs());
    auto copied = scf::ForOp::create(b, loc, mapped(loop.getLowerBound()), mapped(loop.getUpperBound()),
                                     mapped(loop.getStep()), pick(loop.getInitArgs(), carried), nullptr,
                                     loop.getUnsignedCmp());
    map.map(loop.getInductionVar(), copied.getInductionVar());
    for (auto [i, which] : llvm::enumerate(carried)) {
      map.map(loop.getRegionIterArgs()[which], copied.getRegionIterArgs()[i]);
      map.map(loop.getResult(which), copied.getResult(unsigned(i)));
    }
    OpBuilder::InsertionGuard guard(b);
    Block *body = copied.getBody();
    if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
      body->back().erase();
    b.setInsertionPointToEnd(body);
    copy(*loop.getBody(), b, map, emit);
    scf::YieldOp::create(b, loc, pick(loop.getYieldedValues(), carried));
    return;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    SmallVector<unsigned> results = needed(branch.getResults());
    SmallVector<Type> types;
    for (unsigned i : results)
      types.push_back(branch.getResult(i).getType());
    auto copied = scf::IfOp::create(b, loc, types, mapped(branch.getCondition()), branch.elseBlock() != nullptr);
    for (auto [i, which] : llvm::enumerate(results))
      map.map(branch.getResult(which), copied.getResult(unsigned(i)));
    OpBuilder::InsertionGuard guard(b);
    auto side = [&](Block *source, Block *target) {
      if (!source)
        return;
      if (!target->empty() && target->back().hasTrait<OpTrait::IsTerminator>())
        target->back().erase();
      b.setInsertionPointToEnd(target);
      copy(*source, b, map, emit);
      scf::YieldOp::create(b, loc, pick(source->getTerminator()->getOperands(), results));
    };
    side(branch.thenBlock(), copied.thenBlock());
    side(branch.elseBlock(), copied.elseBlock());
    return;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    SmallVector<unsigned> before = needed(loop.getBeforeArguments());
    SmallVector<unsigned> after;
    for (unsigned i = 0; i < loop.getNumResults(); ++i)
      if (values.contains(loop.getAfterArguments()[i]) || values.contains(loop.getResult(i)))
        after.push_back(i);
    SmallVector<Type> types;
    for (unsigned i : after)
      types.push_back(loop.getResult(i).getType());
    auto copied = scf::WhileOp::create(
        b, loc, types, pick(loop.getInits(), before),
        [&](OpBuilder &inner, Location, ValueRange args) {
          for (auto [i, which] : llvm::enumerate(before))
            map.map(loop.getBeforeArguments()[which], args[i]);
          copy(*loop.getBeforeBody(), inner, map, emit);
          scf::ConditionOp::create(inner, loc, mapped(loop.getConditionOp().getCondition()),
                                   pick(loop.getConditionOp().getArgs(), after));
        },
        [&](OpBuilder &inner, Location, ValueRange args) {
          for (auto [i, which] : llvm::enumerate(after))
            map.map(loop.getAfterArguments()[which], args[i]);
          copy(*loop.getAfterBody(), inner, map, emit);
          scf::YieldOp::create(inner, loc, pick(loop.getYieldOp().getOperands(), before));
        });
    for (auto [i, which] : llvm::enumerate(after))
      map.map(loop.getResult(which), copied.getResult(unsigned(i)));
    return;
  }
  b.clone(*op, map);
}

} // namespace sectile::passes
