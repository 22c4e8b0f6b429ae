// SPDX-License-Identifier: Apache-2.0
#include "passes/TailMma.h"
#include "passes/TailAnalysis.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

// --- masks that depend on k alone

/// Is this the interval of an axis that was repeated from length 1: all of the axis or nothing?
static bool isAllOrNothing(CompareOp op, int axis) {
  auto iota = op.getA().getDefiningOp<IotaOp>();
  auto splat = op.getB().getDefiningOp<SplatOp>();
  auto choice = splat ? splat.getX().getDefiningOp<SelectOp>() : SelectOp();
  IntegerAttr all, none;
  return op.getPred() == ComparePred::k_lt && iota && int(iota.getAxis()) == axis && choice &&
         matchPattern(choice.getA(), m_Constant(&all)) && matchPattern(choice.getB(), m_Constant(&none)) &&
         all.getInt() >= shapeOf(iota.getType())[axis] && none.getInt() <= 0;
}

/// True if the lanes of `v` along the axis are equal by construction.
static bool isUniform(Value v, int axis, llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (!isTile(v) || shapeOf(v.getType())[axis] == 1)
    return true;
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (!seen.insert(op).second)
    return true; // the walk ends at the first op that is not
  if (isa<ConstantOp, SplatOp>(op))
    return true;
  if (auto compareOp = dyn_cast<CompareOp>(op); compareOp && isAllOrNothing(compareOp, axis))
    return true; // its first lane stands for all
  if (auto iota = dyn_cast<IotaOp>(op))
    return int(iota.getAxis()) != axis;
  if (!isa<BroadcastOp>(op) && !isElementwise(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value x) { return isUniform(x, axis, seen); });
}

/// One of the equal lines. @pre isUniform(v, axis)
static Value lineOf(ExistBuilder &e, Value v, int axis, DenseMap<Value, Value> &lines) {
  if (!isTile(v) || shapeOf(v.getType())[axis] == 1)
    return v;
  if (Value known = lines.lookup(v))
    return known;
  Operation *op = v.getDefiningOp();
  SmallVector<int64_t> shape(shapeOf(v.getType()));
  shape[axis] = 1;
  auto type = RankedTensorType::get(shape, elementOf(v.getType()));
  Value line;
  if (auto constantOp = dyn_cast<ConstantOp>(op)) {
    auto splat = cast<SplatElementsAttr>(Attribute(constantOp.getValue()));
    line = constant(e.b, e.loc, type, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
  } else {
    IRMapping lined;
    for (Value x : op->getOperands())
      lined.map(x, lineOf(e, x, axis, lines));
    if (isa<BroadcastOp>(op) && lined.lookup(op->getOperand(0)).getType() == type) {
      line = lined.lookup(op->getOperand(0));
    } else {
      Operation *copy = e.b.clone(*op, lined);
      copy->getResult(0).setType(type);
      line = copy->getResult(0);
    }
  }
  return lines[v] = line;
}

static void conjuncts(Value mask, SmallVectorImpl<Value> &list) {
  if (auto both = mask.getDefiningOp<BinaryOp>(); both && both.getFn() == BinaryFn::k_bitand) {
    conjuncts(both.getA(), list);
    conjuncts(both.getB(), list);
  } else if (!llvm::is_contained(list, mask)) {
    list.push_back(mask);
  }
}

KMask splitMask(ExistBuilder &e, Value mask, int axis) {
  KMask split;
  if (!mask)
    return split;
  SmallVector<Value> list;
  conjuncts(mask, list);
  DenseMap<Value, Value> lines;
  for (Value part : list) {
    llvm::SmallPtrSet<Operation *, 8> seen;
    if (isUniform(part, axis, seen))
      split.line = e.both(split.line, lineOf(e, part, axis, lines));
    else
      split.rest = e.both(split.rest, part);
  }
  return split;
}

// --- the product

/// An i1 scalar: no lane is infinite or NaN.
static Value allFinite(ExistBuilder &e, Value x) {
  auto element = cast<FloatType>(elementOf(x.getType()));
  const llvm::fltSemantics &semantics = element.getFloatSemantics();
  Value finite;
  if (llvm::APFloat::semanticsHasInf(semantics)) {
    Value size = UnaryOp::create(e.b, e.loc, x.getType(), UnaryFn::k_abs, x);
    TypedAttr infinity = FloatAttr::get(element, llvm::APFloat::getInf(semantics));
    finite = compare(e.b, e.loc, ComparePred::k_lt, size, constant(e.b, e.loc, x.getType(), infinity));
  } else {
    finite = compare(e.b, e.loc, ComparePred::k_eq, x, x);
  }
  SmallVector<int64_t> shape(shapeOf(x.getType()));
  for (int axis : {0, 1}) {
    shape[axis] = 1;
    finite = ReduceOp::create(e.b, e.loc, RankedTensorType::get(shape, e.b.getI1Type()), ReduceKind::k_all,
                              finite, axis);
  }
  return ReshapeOp::create(e.b, e.loc, e.b.getI1Type(), finite);
}

/// An i1 tile of the shape of `like`: true at coordinate k of the axis.
static Value at(ExistBuilder &e, Type like, int axis, Value k) {
  SmallVector<int64_t> line{1, 1};
  line[axis] = shapeOf(like)[axis];
  auto type = RankedTensorType::get(line, e.b.getIndexType());
  Value coordinate = IotaOp::create(e.b, e.loc, type, axis), wanted = SplatOp::create(e.b, e.loc, type, k);
  Value hit = compare(e.b, e.loc, ComparePred::k_eq, coordinate, wanted);
  Type flags = RankedTensorType::get(shapeOf(like), e.b.getI1Type());
  return hit.getType() == flags ? hit : BroadcastOp::create(e.b, e.loc, flags, hit).getResult();
}

/// The products of one k after the other, each added where the masks hold at this k.
static Value stepByStep(ExistBuilder &e, MmaOp op, Value aMask, Value bMask) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  // f16 sums are kept in f32 and rounded once.
  Type type = op.getType(), sum = elementOf(type).isF16() ? withElement(type, b.getF32Type()) : type;
  Value acc = op.getAcc();
  if (sum != type)
    acc = CastOp::create(b, loc, sum, acc);
  Value zero = indexConstant(b, loc, 0), one = indexConstant(b, loc, 1);
  Value count = indexConstant(b, loc, shapeOf(op.getA().getType())[1]);
  auto loop = scf::ForOp::create(b, loc, zero, count, one, ValueRange(acc));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    Value k = loop.getInductionVar(), before = loop.getRegionIterArg(0), kept;
    auto alone = [&](Value x, int axis) { // zeros at every other k, on both sides
      return e.selectExisting(at(e, x.getType(), axis, k), x, zeroOf(elementOf(x.getType())));
    };
    auto keep = [&](Value mask, int axis) {
      if (!mask)
        return;
      SmallVector<int64_t> shape(shapeOf(mask.getType()));
      shape[axis] = 1;
      Value here = binary(b, loc, BinaryFn::k_bitand, mask, at(e, mask.getType(), axis, k));
      Type lineType = RankedTensorType::get(shape, b.getI1Type()), flags = withElement(sum, b.getI1Type());
      Value line = ReduceOp::create(b, loc, lineType, ReduceKind::k_any, here, axis);
      kept = e.both(kept, lineType == flags ? line : BroadcastOp::create(b, loc, flags, line).getResult());
    };
    Value left = alone(op.getA(), 1), right = alone(op.getB(), 0);
    Value next = MmaOp::create(b, loc, sum, op.getPolicy(), left, right, before);
    keep(aMask, 1);
    keep(bMask, 0);
    scf::YieldOp::create(b, loc, select(b, loc, kept, next, before));
  }
  return sum == type ? loop.getResult(0) : CastOp::create(b, loc, type, loop.getResult(0)).getResult();
}

Value maskedMma(ExistBuilder &e, MmaOp op, Value aMask, Value bMask) {
  Value finite;
  if (aMask)
    finite = allFinite(e, op.getB());
  if (bMask)
    finite = e.both(finite, allFinite(e, op.getA()));
  auto branch = scf::IfOp::create(e.b, e.loc, TypeRange(op.getType()), finite, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToEnd(branch.thenBlock());
  Value plain = MmaOp::create(e.b, e.loc, op.getType(), op.getPolicy(), op.getA(), op.getB(), op.getAcc());
  scf::YieldOp::create(e.b, e.loc, plain);
  e.b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(e.b, e.loc, stepByStep(e, op, aMask, bMask));
  return branch.getResult(0);
}

} // namespace sectile::passes
