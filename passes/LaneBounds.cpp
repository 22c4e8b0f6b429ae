// SPDX-License-Identifier: Apache-2.0
#include "passes/LaneBounds.h"

#include "ir/IndexFacts.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sectile::tileir;

namespace sectile::passes {

static void addTerm(IndexForm &form, const IndexSymbol &symbol, uint64_t factor) {
  uint64_t &sum = form.terms[symbol];
  sum += factor;
  if (sum == 0)
    form.terms.erase(symbol);
}

static IndexForm scaled(const IndexForm &x, uint64_t factor) {
  IndexForm result{x.constant * factor, {}};
  for (const auto &[symbol, times] : x.terms)
    addTerm(result, symbol, times * factor);
  return result;
}

static IndexForm sum(IndexForm x, const IndexForm &y) {
  x.constant += y.constant;
  for (const auto &[symbol, times] : y.terms)
    addTerm(x, symbol, times);
  return x;
}

std::optional<IndexSymbol> TileMaps::length(Value tensor, int64_t axis) {
  auto arg = llvm::dyn_cast<BlockArgument>(rootAlongAxis(tensor, axis));
  auto func = arg ? llvm::dyn_cast_or_null<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  if (!func)
    return std::nullopt;
  if (auto classes = func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), chainLengthsAttr))
    return IndexSymbol{nullptr, classes[axis]};
  return IndexSymbol{arg.getAsOpaquePointer(), axis};
}

IndexForm TileMaps::form(Value index) {
  if (auto value = IndexFacts::constant(index))
    return {static_cast<uint64_t>(*value), {}};
  if (auto dim = index.getDefiningOp<DimOp>())
    if (auto symbol = length(dim.getX(), dim.getAxis()))
      return {0, {{*symbol, 1}}};
  if (auto op = index.getDefiningOp<BinaryOp>()) {
    if (op.getFn() == BinaryFn::k_add)
      return sum(form(op.getA()), form(op.getB()));
    if (op.getFn() == BinaryFn::k_sub)
      return sum(form(op.getA()), scaled(form(op.getB()), ~uint64_t(0)));
    if (op.getFn() == BinaryFn::k_mul) {
      const IndexForm a = form(op.getA()), b = form(op.getB());
      if (a.isConstant())
        return scaled(b, a.constant);
      if (b.isConstant())
        return scaled(a, b.constant);
    }
  }
  return {0, {{IndexSymbol{index.getAsOpaquePointer(), -1}, 1}}};
}

bool TileMaps::alwaysInside(const IndexForm &offset, const IndexSymbol &symbol, int64_t count) {
  if (count != 1 || offset.constant != 0 || offset.terms.size() != 1)
    return false;
  const auto &[term, factor] = *offset.terms.begin();
  if (factor != 1 || !term.value || term.axis != -1)
    return false;
  Value value = Value::getFromOpaquePointer(term.value);
  auto grid = value.getDefiningOp<GridOp>();
  if (!grid)
    return false;
  const unsigned d = llvm::cast<OpResult>(value).getResultNumber();
  return grid.getSizes()[d] == 1 && length(grid.getX(), d) == symbol;
}

AxisLanes TileMaps::lanes(Value tile, int64_t axis) {
  seen.clear();
  AxisLanes result;
  addLanes(tile, axis, result);
  return result;
}

/// The axis of `from` behind axis `axis` of `to`, of shapes that differ in axes of length 1 alone; -1: an added one.
static std::optional<int64_t> axisBefore(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, int64_t axis) {
  auto map = unitReshapeMap(from, to);
  if (!map)
    return std::nullopt;
  for (auto [d, target] : llvm::enumerate(*map))
    if (target == axis)
      return int64_t(d);
  return -1;
}

void TileMaps::addLanes(Value tile, int64_t axis, AxisLanes &lanes) {
  if (!passes::isTile(tile) || !seen.insert({tile, axis}).second)
    return;
  auto add = [&](Value from, int64_t d) { addLanes(from, d, lanes); };
  if (auto arg = llvm::dyn_cast<BlockArgument>(tile)) {
    // Carried by a loop: what it begins with, and what a trip hands on.
    auto loop = llvm::dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop) {
      lanes.unclear = arg.getOwner()->getParentOp();
      return;
    }
    add(loop.getTiedLoopInit(arg)->get(), axis);
    add(loop.getTiedLoopYieldedValue(arg)->get(), axis);
    return;
  }
  Operation *def = tile.getDefiningOp();
  const unsigned number = llvm::cast<OpResult>(tile).getResultNumber();
  llvm::TypeSwitch<Operation *>(def)
      .Case<LoadOp>([&](LoadOp op) {
        auto symbol = length(op.getX(), axis);
        if (!symbol) {
          lanes.unclear = op;
          return;
        }
        LaneBound bound{rootAlongAxis(op.getX(), axis), axis, *symbol, form(op.getOffsets()[axis])};
        if (!alwaysInside(bound.offset, bound.length, shapeOf(op.getType())[axis]) && !llvm::is_contained(lanes.bounds, bound))
          lanes.bounds.push_back(std::move(bound));
      })
      .Case<KeepOp>([&](KeepOp op) {
        add(op.getMask(), axis);
        add(op.getX(), axis);
      })
      .Case<FillOp, IotaOp, ConstantOp, SplatOp>([](Operation *) {})
      .Case<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp>([&](Operation *op) {
        for (Value operand : op->getOperands())
          add(operand, axis);
      })
      .Case<BroadcastOp>([&](BroadcastOp op) {
        if (shapeOf(op.getX().getType())[axis] == shapeOf(op.getType())[axis]) {
          add(op.getX(), axis);
          return;
        }
        // All lanes or none, as x's only one: that at coordinate 0 exists in every tensor that has elements.
        AxisLanes one;
        addLanes(op.getX(), axis, one);
        if (one.unclear)
          lanes.unclear = one.unclear;
        for (const LaneBound &bound : one.bounds)
          if (!bound.offset.isConstant() || bound.offset.constant != 0)
            lanes.unclear = op;
      })
      .Case<ReshapeOp>([&](ReshapeOp op) {
        auto from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        auto before = from.empty() ? std::nullopt : axisBefore(from, to, axis);
        if (!before)
          lanes.unclear = from.empty() ? nullptr : op.getOperation();
        else if (*before >= 0)
          add(op.getX(), *before);
        if (!before)
          return;
        // A lane missing on an axis that is dropped takes every lane with it.
        auto map = unitReshapeMap(from, to);
        for (auto [d, target] : llvm::enumerate(*map)) {
          AxisLanes dropped;
          if (target >= 0)
            continue;
          addLanes(op.getX(), d, dropped);
          if (dropped.unclear || llvm::any_of(dropped.bounds, [](const LaneBound &b) { return !b.offset.isConstant() || b.offset.constant != 0; }))
            lanes.unclear = op;
        }
      })
      .Case<PermuteOp>([&](PermuteOp op) { add(op.getX(), op.getPerm()[axis]); })
      .Case<ReduceOp>([&](ReduceOp op) {
        if (axis != int64_t(op.getAxis()))
          add(op.getX(), axis);
      })
      .Case<MmaOp>([&](MmaOp op) {
        add(axis == 0 ? op.getA() : op.getB(), axis);
        add(op.getAcc(), axis);
      })
      .Case<scf::ForOp>([&](scf::ForOp op) {
        add(op.getInits()[number], axis);
        add(op.getYieldedValues()[number], axis);
      })
      .Case<scf::IfOp>([&](scf::IfOp op) {
        add(op.thenYield().getOperand(number), axis);
        add(op.elseYield().getOperand(number), axis);
      })
      .Default([&](Operation *op) { lanes.unclear = op; });
}

Operation *TileMaps::mask(Value tile) {
  maskSeen.clear();
  return findMask(tile);
}

Operation *TileMaps::findMask(Value tile) {
  if (!passes::isTile(tile) || !maskSeen.insert(tile).second)
    return nullptr;
  auto first = [&](ValueRange values) -> Operation * {
    for (Value v : values)
      if (Operation *found = findMask(v))
        return found;
    return nullptr;
  };
  if (auto arg = llvm::dyn_cast<BlockArgument>(tile)) {
    auto loop = llvm::dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop)
      return arg.getOwner()->getParentOp();
    return first({loop.getTiedLoopInit(arg)->get(), loop.getTiedLoopYieldedValue(arg)->get()});
  }
  Operation *def = tile.getDefiningOp();
  const unsigned number = llvm::cast<OpResult>(tile).getResultNumber();
  return llvm::TypeSwitch<Operation *, Operation *>(def)
      .Case<LoadOp, FillOp, IotaOp, ConstantOp, SplatOp, ReduceOp>([](Operation *) { return nullptr; })
      .Case<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, BroadcastOp, PermuteOp>(
          [&](Operation *op) { return first(op->getOperands()); })
      .Case<ReshapeOp>([&](ReshapeOp op) -> Operation * {
        auto from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        return from.empty() || to.empty() || unitReshapeMap(from, to) ? findMask(op.getX()) : op.getOperation();
      })
      .Case<MmaOp>([&](MmaOp op) { return findMask(op.getAcc()); })
      .Case<scf::ForOp>([&](scf::ForOp op) { return first({op.getInits()[number], op.getYieldedValues()[number]}); })
      .Case<scf::IfOp>([&](scf::IfOp op) {
        return first({op.thenYield().getOperand(number), op.elseYield().getOperand(number)});
      })
      .Default([](Operation *op) { return op; });
}

} // namespace sectile::passes
