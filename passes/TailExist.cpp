// SPDX-License-Identifier: Apache-2.0
#include "passes/TailExist.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

Value ExistBuilder::meet(BinaryFn fn, Value x, Value y) {
  if (!x || !y || x == y)
    return x ? x : y;
  return binary(b, loc, fn, x, y);
}

Exist ExistBuilder::meet(const Exist &x, const Exist &y) {
  Exist r(x.lo.size());
  for (size_t d = 0; d < x.lo.size(); ++d) {
    r.lo[d] = maxLo(x.lo[d], y.lo[d]);
    r.hi[d] = minHi(x.hi[d], y.hi[d]);
  }
  r.mask = both(x.mask, y.mask);
  return r;
}

Value ExistBuilder::existTile(Type like, const Exist &e) {
  Value result = e.mask;
  ArrayRef<int64_t> shape = shapeOf(like);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!e.lo[d] && !e.hi[d])
      continue;
    // One line along the axis, then repeated: fewer comparisons.
    SmallVector<int64_t> line(shape.size(), 1);
    line[d] = shape[d];
    auto type = RankedTensorType::get(line, b.getIndexType());
    Value coordinate = IotaOp::create(b, loc, type, d), inside;
    auto check = [&](ComparePred pred, Value bound) {
      Value splat = SplatOp::create(b, loc, type, bound);
      Value holds = CompareOp::create(b, loc, withElement(type, b.getI1Type()), pred, coordinate, splat);
      inside = both(inside, holds);
    };
    if (e.lo[d])
      check(ComparePred::k_ge, e.lo[d]);
    if (e.hi[d])
      check(ComparePred::k_lt, e.hi[d]);
    if (ArrayRef(line) != shape)
      inside = BroadcastOp::create(b, loc, RankedTensorType::get(shape, b.getI1Type()), inside);
    result = both(result, inside);
  }
  return result;
}

Value ExistBuilder::unitExists(Value lo, Value hi) {
  Value result;
  if (lo)
    result = compare(b, loc, ComparePred::k_le, lo, indexConstant(b, loc, 0));
  if (hi)
    result = both(result, compare(b, loc, ComparePred::k_ge, hi, indexConstant(b, loc, 1)));
  return result;
}

Value ExistBuilder::selectExisting(Value exist, Value x, TypedAttr otherwise) {
  if (!exist)
    return x;
  return select(b, loc, exist, x, constant(b, loc, x.getType(), otherwise));
}

Value ExistBuilder::fillMissing(Value x, const Exist &e, TypedAttr fill) {
  if (e.mask)
    x = selectExisting(e.mask, x, fill);
  SmallVector<int64_t> axes;
  SmallVector<Value> lo, hi;
  bounds(e, shapeOf(x.getType()), axes, lo, hi);
  if (axes.empty())
    return x;
  // Zeros are put in front of a cast to a narrow type, whose pairs are then made from registers: zeros in halves of registers
  // are put one by one, and an asynchronous product whose operand they are would be waited for.
  if (auto cast = x.getDefiningOp<CastOp>(); cast && x.hasOneUse() && fill == zeroOf(elementOf(x.getType()))) {
    Value wide = cast.getX();
    auto from = dyn_cast<FloatType>(elementOf(wide.getType())), to = dyn_cast<FloatType>(elementOf(x.getType()));
    if (from && to && to.getWidth() < from.getWidth()) {
      wide = tgpu::FillOutsideOp::create(b, loc, wide.getType(), wide, axes, lo, hi, zeroOf(from));
      return CastOp::create(b, cast.getLoc(), x.getType(), wide);
    }
  }
  return tgpu::FillOutsideOp::create(b, loc, x.getType(), x, axes, lo, hi, fill);
}

void ExistBuilder::bounds(const Exist &e, ArrayRef<int64_t> shape, SmallVectorImpl<int64_t> &axes,
                          SmallVectorImpl<Value> &lo, SmallVectorImpl<Value> &hi) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!e.lo[d] && !e.hi[d])
      continue;
    axes.push_back(d);
    lo.push_back(e.lo[d] ? e.lo[d] : indexConstant(b, loc, 0));
    hi.push_back(e.hi[d] ? e.hi[d] : indexConstant(b, loc, shape[d]));
  }
}

static TypedAttr extremeOf(Type element, bool smallest) {
  if (auto f = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &s = f.getFloatSemantics();
    bool hasInf = llvm::APFloat::semanticsHasInf(s);
    return FloatAttr::get(f, hasInf ? llvm::APFloat::getInf(s, smallest)
                                    : llvm::APFloat::getLargest(s, smallest));
  }
  if (isa<IndexType>(element))
    return IntegerAttr::get(element, smallest ? std::numeric_limits<int64_t>::min()
                                              : std::numeric_limits<int64_t>::max());
  auto i = cast<IntegerType>(element);
  bool isUnsigned = i.isUnsigned() || i.getWidth() == 1;
  unsigned w = i.getWidth();
  APInt v = smallest ? (isUnsigned ? APInt::getMinValue(w) : APInt::getSignedMinValue(w))
                     : (isUnsigned ? APInt::getMaxValue(w) : APInt::getSignedMaxValue(w));
  return IntegerAttr::get(element, v);
}

TypedAttr identityOf(ReduceKind kind, Type element) {
  switch (kind) {
  case ReduceKind::k_sum:
  case ReduceKind::k_any:
    return zeroOf(element);
  case ReduceKind::k_prod:
    if (isa<FloatType>(element))
      return FloatAttr::get(element, 1.0);
    return IntegerAttr::get(element,
                            APInt(isa<IndexType>(element) ? 64 : element.getIntOrFloatBitWidth(), 1));
  case ReduceKind::k_all:
    return IntegerAttr::get(element, APInt(1, 1));
  case ReduceKind::k_max:
  case ReduceKind::k_maxnum:
  case ReduceKind::k_argmax:
    return extremeOf(element, true);
  default:
    return extremeOf(element, false);
  }
}

bool isBefore(Value v, Operation *op) {
  Operation *ancestor = v.getParentBlock()->findAncestorOpInBlock(*op);
  if (!ancestor)
    return false;
  Operation *def = v.getDefiningOp();
  return !def || (def != ancestor && def->isBeforeInBlock(ancestor));
}

bool canHoist(Value v, Operation *before) {
  if (!v || isBefore(v, before))
    return true;
  Operation *def = v.getDefiningOp();
  if (!def || def->getNumRegions() != 0 || !isPure(def))
    return false;
  return llvm::all_of(def->getOperands(), [&](Value operand) { return canHoist(operand, before); });
}

void hoist(Value v, Operation *before) {
  if (!v || isBefore(v, before))
    return;
  Operation *def = v.getDefiningOp();
  for (Value operand : def->getOperands())
    hoist(operand, before);
  def->moveBefore(before);
}

} // namespace sectile::passes
