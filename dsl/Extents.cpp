// SPDX-License-Identifier: Apache-2.0
// Which lanes of a value exist may differ from trip to trip of a loop: because a load's offset moves toward
// the end of a tensor, or a mask is computed from the loop variable. A carried cell must not have such lanes.
#include "dsl/Trace.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sectile::tileir;

namespace sectile::detail {
namespace {

class LaneSearch {
public:
  explicit LaneSearch(Operation *loop) : loop(loop) {}

  VaryingLanes allLanes(Value v) {
    for (int axis = 0, rank = shapeOf(v.getType()).size(); axis < rank; ++axis)
      if (VaryingLanes r = lanes(v, axis); r.op)
        return r;
    return lanes(v, maskOf);
  }

private:
  static constexpr int maskOf = -1;

  bool inside(Operation *op) const { return op && loop->isProperAncestor(op); }

  /// Whether the number `v` may differ between trips.
  bool varies(Value v) {
    if (auto arg = llvm::dyn_cast<BlockArgument>(v)) {
      Operation *owner = arg.getOwner()->getParentOp();
      return owner == loop || inside(owner);
    }
    Operation *def = v.getDefiningOp();
    if (!inside(def))
      return false;
    auto [it, isNew] = varying.try_emplace(v, false);
    if (!isNew)
      return it->second;
    bool result = llvm::any_of(def->getOperands(), [&](Value o) { return varies(o); });
    def->walk([&](Operation *inner) {
      if (!result && inner != def)
        result = llvm::any_of(inner->getOperands(), [&](Value o) { return varies(o); });
    });
    return varying[v] = result;
  }

  VaryingLanes first(ValueRange values, int what) {
    for (Value v : values)
      if (VaryingLanes r = lanes(v, what); r.op)
        return r;
    return {};
  }

  /// `loop` runs over exactly the coordinates of the axis, one by one: each is inside the tensor.
  bool coversAxis(LoadOp load, int axis) {
    auto f = llvm::dyn_cast<scf::ForOp>(loop);
    if (!f || load.getOffsets()[axis] != f.getInductionVar() || shapeOf(load.getType())[axis] != 1)
      return false;
    auto end = f.getUpperBound().getDefiningOp<DimOp>();
    auto begin = f.getLowerBound().getDefiningOp<ConstantOp>();
    auto number = begin ? llvm::dyn_cast<IntegerAttr>(begin.getValue()) : IntegerAttr();
    return end && end.getX() == load.getX() && int(end.getAxis()) == axis && number &&
           !number.getValue().isNegative();
  }

  /// The slices that a tensor inside the loop is made of.
  VaryingLanes ofTensor(Value tensor, int axis) {
    while (auto slice = tensor.getDefiningOp<SliceOp>()) {
      if (!inside(slice))
        return {};
      if (int(slice.getAxis()) == axis && (varies(slice.getLo()) || varies(slice.getHi())))
        return {slice};
      tensor = slice.getX();
    }
    auto arg = llvm::dyn_cast<BlockArgument>(tensor);
    if (arg && varies(arg))
      return {loop}; // another tensor in each trip
    return {};
  }

  VaryingLanes ofReshape(ReshapeOp op, int what) {
    llvm::ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
    auto isOne = [](int64_t d) { return d == 1; };
    llvm::SmallVector<int64_t> a, b;
    llvm::copy_if(from, std::back_inserter(a), std::not_fn(isOne));
    llvm::copy_if(to, std::back_inserter(b), std::not_fn(isOne));
    if (what == maskOf) {
      if (VaryingLanes r = lanes(op.getX(), maskOf); r.op)
        return r;
      if (a == b)
        return {};
    } else if (a == b && to[what] != 1) {
      // The axis of x that this one is.
      int number = 0, axis = 0;
      for (int d = 0; d < what; ++d)
        number += to[d] != 1;
      for (;; ++axis)
        if (from[axis] != 1 && number-- == 0)
          break;
      if (VaryingLanes r = lanes(op.getX(), axis); r.op)
        return r;
      // A lane missing on a dropped axis takes every lane with it.
      for (int d = 0, n = from.size(); d < n; ++d)
        if (from[d] == 1)
          if (VaryingLanes r = lanes(op.getX(), d); r.op)
            return r;
      return {};
    }
    for (int d = 0, n = from.size(); d < n; ++d)
      if (a != b || from[d] == 1)
        if (VaryingLanes r = lanes(op.getX(), d); r.op)
          return r;
    return {};
  }

  /// The op that makes the existing lanes of `v` along axis `what` (or its mask) differ between trips.
  VaryingLanes lanes(Value v, int what) {
    if (!llvm::isa<RankedTensorType>(v.getType()) || !seen.insert({v, what}).second)
      return {};
    if (auto arg = llvm::dyn_cast<BlockArgument>(v)) {
      Operation *owner = arg.getOwner()->getParentOp();
      if (!inside(owner))
        return {}; // from outside, or carried by the loop itself: checked where it is yielded
      if (auto f = llvm::dyn_cast<scf::ForOp>(owner))
        return lanes(f.getTiedLoopInit(arg)->get(), what);
      if (auto w = llvm::dyn_cast<scf::WhileOp>(owner))
        return arg.getOwner() == &w.getBefore().front()
                   ? lanes(w.getInits()[arg.getArgNumber()], what)
                   : lanes(w.getConditionOp().getArgs()[arg.getArgNumber()], what);
      return {};
    }
    Operation *def = v.getDefiningOp();
    const unsigned number = llvm::cast<OpResult>(v).getResultNumber();
    if (!inside(def))
      return {};
    return llvm::TypeSwitch<Operation *, VaryingLanes>(def)
        .Case<LoadOp>([&](LoadOp op) -> VaryingLanes {
          if (what == maskOf)
            return {};
          if (varies(op.getOffsets()[what]) && !coversAxis(op, what))
            return {op};
          return ofTensor(op.getX(), what);
        })
        .Case<GatherOp>([&](GatherOp op) -> VaryingLanes {
          if (what != maskOf)
            return first(op.getIndices(), what);
          if (llvm::any_of(op.getIndices(), [&](Value i) { return varies(i); }))
            return {op, true};
          for (int axis = 0, rank = op.getX().getType().getRank(); axis < rank; ++axis)
            if (VaryingLanes r = ofTensor(op.getX(), axis); r.op)
              return r;
          return first(op.getIndices(), what);
        })
        .Case<KeepOp>([&](KeepOp op) -> VaryingLanes {
          if (what == maskOf) {
            if (varies(op.getMask()))
              return {op, true};
            if (VaryingLanes r = allLanes(op.getMask()); r.op)
              return r;
          }
          return lanes(op.getX(), what);
        })
        .Case<FillOp, IotaOp, ConstantOp, SplatOp>([](Operation *) { return VaryingLanes(); })
        .Case<ReduceOp>([&](ReduceOp op) -> VaryingLanes {
          return what == maskOf || what == int(op.getAxis()) ? VaryingLanes() : lanes(op.getX(), what);
        })
        .Case<MmaOp>([&](MmaOp op) -> VaryingLanes {
          if (what != maskOf)
            if (VaryingLanes r = lanes(what == 0 ? op.getA() : op.getB(), what); r.op)
              return r;
          return lanes(op.getAcc(), what);
        })
        .Case<PermuteOp>(
            [&](PermuteOp op) { return lanes(op.getX(), what == maskOf ? maskOf : op.getPerm()[what]); })
        .Case<ReshapeOp>([&](ReshapeOp op) { return ofReshape(op, what); })
        .Case<scf::ForOp>([&](scf::ForOp op) {
          return first({op.getInits()[number], op.getYieldedValues()[number]}, what);
        })
        .Case<scf::IfOp>([&](scf::IfOp op) {
          return first({op.thenYield().getOperand(number), op.elseYield().getOperand(number)}, what);
        })
        .Case<scf::WhileOp>(
            [&](scf::WhileOp op) { return lanes(op.getConditionOp().getArgs()[number], what); })
        .Default([&](Operation *op) { return first(op->getOperands(), what); }); // elementwise, broadcast
  }

  Operation *loop;
  llvm::DenseMap<Value, bool> varying;
  llvm::DenseSet<std::pair<Value, int>> seen;
};

} // namespace

VaryingLanes lanesThatVary(Value value, Operation *loop) { return LaneSearch(loop).allLanes(value); }

} // namespace sectile::detail
