// SPDX-License-Identifier: Apache-2.0
#include "ir/Dependence.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace sectile::tileir {

Dependence::Dependence(ValueRange sources) {
  addAll(sources);
  while (!work.empty())
    for (OpOperand &use : work.pop_back_val().getUses())
      follow(use);
}

bool Dependence::ofControl(Operation *op) const {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (control.contains(parent))
      return true;
  return false;
}

void Dependence::add(Value v) {
  if (values.insert(v).second)
    work.push_back(v);
}

/// The loop makes other trips, or the branch goes another way.
void Dependence::addControl(Operation *op) {
  control.insert(op);
  addAll(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      addAll(block.getArguments());
}

void Dependence::follow(OpOperand &use) {
  Operation *op = use.getOwner(), *parent = op->getParentOp();
  const unsigned i = use.getOperandNumber();
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (i < loop.getNumControlOperands())
      return addControl(op);
    add(loop.getTiedLoopRegionIterArg(&use));
    return add(loop.getTiedLoopResult(&use));
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return add(loop.getBeforeArguments()[i]);
  if (isa<scf::IfOp>(op))
    return addControl(op);
  if (isa<scf::ConditionOp>(op)) {
    auto loop = cast<scf::WhileOp>(parent);
    if (i == 0)
      return addControl(parent);
    add(loop.getAfterArguments()[i - 1]);
    return add(loop.getResult(i - 1));
  }
  if (isa<scf::YieldOp>(op)) {
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      add(loop.getRegionIterArgs()[i]);
      return add(loop.getResult(i));
    }
    if (auto loop = dyn_cast<scf::WhileOp>(parent))
      return add(loop.getBeforeArguments()[i]);
    return addAll(ValueRange(parent->getResults()).slice(i, 1));
  }
  addAll(op->getResults());
}

} // namespace sectile::tileir
