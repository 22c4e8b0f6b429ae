// SPDX-License-Identifier: Apache-2.0
/// \file ResolveTails: make missing lanes explicit.
///
/// Before: tile values carry implicit extents and masks. After: no tile.load, tile.store, tile.gather,
/// tile.keep, tile.fill remains; memory ops name their bounds, reductions and mma see identities in missing
/// lanes, every value is plain.
///
/// Each value gets, beside itself, the lanes that exist as other values: one interval per axis (index
/// scalars) and a mask (an i1 tile). A first walk finds which parts of which loop-carried values may be
/// incomplete; those become further carried values. The second walk rewrites.

#include "passes/Passes.h"
#include "passes/TailAnalysis.h"
#include "passes/TailExist.h"
#include "passes/TailMma.h"

#include "ir/LooseLoads.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile::passes {
#define GEN_PASS_DEF_RESOLVETAILSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

// --- the rewrite -----------------------------------------------------------------------------------------

class Resolver : ExistBuilder {
public:
  explicit Resolver(func::FuncOp func) : ExistBuilder(func.getContext()), func(func), analysis(facts) {}

  LogicalResult run() {
    analysis.run(func.getBody().front());
    hasProduct = func.walk([](MmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (failed(process(func.getBody().front())))
      return failure();
    for (KeepOp keep : keeps) {
      keep.getResult().replaceAllUsesWith(keep.getX());
      keep.erase();
    }
    return success();
  }

private:
  Exist of(Value v) const {
    auto it = exists.find(v);
    return it != exists.end() ? it->second : Exist(shapeOf(v.getType()).size());
  }
  void set(Value v, const Exist &e) { exists[v] = e; }

  // --- zeros in missing lanes of one axis, for free where a load can pad

  /// Makes lanes of `v` outside lo <= c < hi of the axis zero by narrowing the load that `v` comes from.
  /// False: not possible, nothing changed.
  bool narrowLoad(Value v, int axis, Value lo, Value hi, bool soleUser) {
    soleUser &= v.hasOneUse();
    Operation *op = v.getDefiningOp();
    if (!op)
      return false;
    if (auto castOp = dyn_cast<CastOp>(op))
      return narrowLoad(castOp.getX(), axis, lo, hi, soleUser);
    if (auto permute = dyn_cast<PermuteOp>(op))
      return narrowLoad(permute.getX(), int(permute.getPerm()[axis]), lo, hi, soleUser);
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      if (!isTile(reshape.getX()))
        return false;
      auto map = unitReshapeMap(shapeOf(reshape.getX().getType()), shapeOf(reshape.getType()));
      if (!map)
        return false;
      auto from = llvm::find(*map, axis);
      return from != map->end() && narrowLoad(reshape.getX(), int(from - map->begin()), lo, hi, soleUser);
    }
    auto load = dyn_cast<tgpu::GlobalLoadOp>(op);
    if (!load || !isZero(load.getPad()))
      return false;
    // Axes in ascending order, each with its bounds.
    SmallVector<int64_t> axes(load.getAxes());
    SmallVector<Value> los(load.getLo()), his(load.getHi());
    size_t at = llvm::lower_bound(axes, axis) - axes.begin();
    bool listed = at < axes.size() && axes[at] == axis;
    if (listed && (!lo || los[at] == lo) && (!hi || his[at] == hi)) {
      load->removeAttr(tgpu::looseAttr);
      return true;
    }
    if (!soleUser || !canHoist(lo, load) || !canHoist(hi, load))
      return false;
    hoist(lo, load);
    hoist(hi, load);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(load);
    if (!listed) {
      axes.insert(axes.begin() + at, axis);
      los.insert(los.begin() + at, lo ? lo : indexConstant(b, load.getLoc(), 0));
      his.insert(his.begin() + at, hi ? hi : indexConstant(b, load.getLoc(), shapeOf(load.getType())[axis]));
    } else {
      los[at] = lo ? lo : los[at];
      his[at] = hi ? hi : his[at];
    }
    auto narrowed = tgpu::GlobalLoadOp::create(b, load.getLoc(), load.getType(), load.getX(),
                                               load.getOffsets(), axes, los, his, load.getPad());
    keepAlignment(load, narrowed);
    exists[narrowed] = of(load);
    load.getResult().replaceAllUsesWith(narrowed);
    exists.erase(load);
    load.erase();
    return true;
  }

  /// Puts zeros into lanes of the operand outside the interval of the axis and outside the mask.
  void zeroOutside(OpOperand &use, int axis, Value lo, Value hi, Value mask) {
    if (!lo && !hi && !mask)
      return;
    if (!mask && narrowLoad(use.get(), axis, lo, hi, true))
      return;
    Value v = use.get();
    Exist e(shapeOf(v.getType()).size());
    e.lo[axis] = lo;
    e.hi[axis] = hi;
    e.mask = mask;
    fillUse(use, e, zeroOf(elementOf(v.getType())));
  }

  /// Fills missing lanes for a use.
  void fillUse(OpOperand &use, const Exist &e, TypedAttr fill) {
    Value x = use.get(), filled = fillMissing(x, e, fill);
    use.set(filled);
    if (filled != x)
      set(filled, of(x));
  }

  // --- ops

  LogicalResult process(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      loc = op.getLoc();
      b.setInsertionPoint(&op);
      if (failed(visit(&op)))
        return failure();
    }
    return success();
  }

  LogicalResult visit(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<LoadOp, StoreOp, GatherOp, KeepOp, FillOp, BroadcastOp, ReshapeOp, PermuteOp, ReduceOp, MmaOp,
              scf::ForOp, scf::IfOp, scf::WhileOp>([&](auto op) { return resolve(op); })
        .Default([&](Operation *op) -> LogicalResult {
          if (isElementwise(op)) {
            if (!isTile(op->getResult(0)))
              return success();
            Exist e(shapeOf(op->getResult(0).getType()).size());
            for (Value v : op->getOperands())
              if (isTile(v))
                e = meet(e, of(v));
            set(op->getResult(0), e);
            return success();
          }
          auto hasTile = [](Value v) { return isTile(v); };
          if (isa<ConstantOp, SplatOp, IotaOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
            return success();
          if (llvm::none_of(op->getOperands(), hasTile) && llvm::none_of(op->getResults(), hasTile))
            return success();
          return op->emitOpError(
              "has no meaning for lanes that do not exist [resolve_tails_c1]; use ops of the tile "
              "dialect on tiles");
        });
  }

  /// dim(x, axis) - offset: one value per place, so that equal extents are seen to be equal.
  Value endOf(Value x, int64_t axis, Value offset) {
    Value &known = ends[{x, axis, offset}];
    if (!known || !isBefore(known, &*b.getInsertionPoint()))
      known = binary(b, loc, BinaryFn::k_sub, DimOp::create(b, loc, x, axis), offset);
    return known;
  }
  Value startOf(Value offset) {
    Value zero = indexConstant(b, loc, 0);
    return binary(b, loc, BinaryFn::k_max, zero, binary(b, loc, BinaryFn::k_sub, zero, offset));
  }

  /// Where the coordinates of an access lie inside the tensor.
  Exist insideTensor(Value x, ValueRange offsets, ArrayRef<int64_t> shape) {
    Exist e(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (needsLo(facts, offsets[d]))
        e.lo[d] = startOf(offsets[d]);
      if (needsHi(facts, x, d, offsets[d], shape[d]))
        e.hi[d] = endOf(x, d, offsets[d]);
    }
    return e;
  }
  /// What AlignRows found.
  static void keepAlignment(Operation *from, Operation *to) {
    if (Attribute bytes = from->getAttr(tgpu::alignedAttr))
      to->setAttr(tgpu::alignedAttr, bytes);
  }

  LogicalResult resolve(LoadOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getType());
    Exist e = insideTensor(op.getX(), op.getOffsets(), shape);
    SmallVector<int64_t> axes;
    SmallVector<Value> lo, hi;
    bounds(e, shape, axes, lo, hi);
    auto load = tgpu::GlobalLoadOp::create(b, loc, op.getType(), op.getX(), op.getOffsets(), axes, lo, hi,
                                           zeroOf(elementOf(op.getType())));
    keepAlignment(op, load);
    // Lanes that do not exist may be anything, unless a product is to find zeros there.
    if (const tgpu::MemoryRun run = tgpu::memoryRun(facts, tgpu::GlobalAccess(load)); !hasProduct && run.whole < run.elems)
      load->setAttr(tgpu::looseAttr, b.getUnitAttr());
    set(load, e);
    op.getResult().replaceAllUsesWith(load);
    op.erase();
    return success();
  }

  LogicalResult resolve(StoreOp op) {
    Value value = op.getValue();
    ArrayRef<int64_t> shape = shapeOf(value.getType());
    Exist e = meet(of(value), insideTensor(op.getX(), op.getOffsets(), shape));
    SmallVector<int64_t> axes;
    SmallVector<Value> lo, hi;
    bounds(e, shape, axes, lo, hi);
    keepAlignment(op, tgpu::GlobalStoreOp::create(b, loc, value, op.getX(), op.getOffsets(), axes, lo, hi, e.mask));
    op.erase();
    return success();
  }

  LogicalResult resolve(GatherOp op) {
    Type type = op.getType();
    Type indexLike = withElement(type, b.getIndexType()), maskLike = withElement(type, b.getI1Type());
    auto spread = [&](Value v) -> Value {
      if (isTile(v) || !isTile(op.getResult()))
        return v;
      return SplatOp::create(b, loc, withElement(type, v.getType()), v);
    };
    Exist e(shapeOf(type).size());
    Value inside;
    for (auto [d, index] : llvm::enumerate(op.getIndices())) {
      if (isTile(index))
        e = meet(e, of(index));
      Value ok;
      if (!facts.nonNegative(index)) {
        Value zero = constant(b, loc, index.getType(), b.getIndexAttr(0));
        ok = compare(b, loc, ComparePred::k_ge, index, zero);
      }
      Value dim = DimOp::create(b, loc, op.getX(), d);
      if (isTile(index))
        dim = SplatOp::create(b, loc, indexLike, dim);
      ok = both(ok, compare(b, loc, ComparePred::k_lt, index, dim));
      inside = both(inside, spread(ok));
    }
    if (!inside)
      inside = constant(b, loc, maskLike, b.getBoolAttr(true));
    Value readable = inside;
    if (isTile(op.getResult()))
      readable = both(existTile(type, e), inside);
    auto gather = tgpu::GlobalGatherOp::create(b, loc, type, op.getX(), op.getIndices(), readable);
    if (isTile(op.getResult())) {
      e.mask = both(e.mask, inside);
      set(gather, e);
    }
    op.getResult().replaceAllUsesWith(gather);
    op.erase();
    return success();
  }

  LogicalResult resolve(KeepOp op) {
    Exist e = of(op.getX()), m = of(op.getMask());
    // Lanes that the mask lacks count as false. Outside x's own extents they do not matter.
    for (size_t d = 0; d < e.lo.size(); ++d) {
      if (m.lo[d] == e.lo[d])
        m.lo[d] = Value();
      if (m.hi[d] == e.hi[d])
        m.hi[d] = Value();
    }
    m.mask = both(m.mask, op.getMask());
    e.mask = both(e.mask, existTile(op.getMask().getType(), m));
    set(op.getResult(), e);
    keeps.push_back(op); // x itself has other lanes: merged only at the end
    return success();
  }

  LogicalResult resolve(FillOp op) {
    Value x = op.getX();
    Exist e = of(x);
    Attribute value;
    auto load = x.getDefiningOp<tgpu::GlobalLoadOp>();
    if (load && exists.count(x) && x.hasOneUse() && matchPattern(op.getValue(), m_Constant(&value))) {
      load.setPadAttr(cast<TypedAttr>(value));
      op.getResult().replaceAllUsesWith(x);
      exists.erase(x); // every lane exists now
    } else if (matchPattern(op.getValue(), m_Constant(&value))) {
      op.getResult().replaceAllUsesWith(fillMissing(x, e, cast<TypedAttr>(value)));
    } else if (Value exist = existTile(x.getType(), e)) {
      Value filled = select(b, loc, exist, x, SplatOp::create(b, loc, x.getType(), op.getValue()));
      op.getResult().replaceAllUsesWith(filled);
    } else {
      op.getResult().replaceAllUsesWith(x);
    }
    op.erase();
    return success();
  }

  LogicalResult resolve(BroadcastOp op) {
    Exist x = of(op.getX());
    ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
    Exist e(to.size());
    for (size_t d = 0; d < to.size(); ++d) {
      if (from[d] == to[d]) {
        e.lo[d] = x.lo[d];
        e.hi[d] = x.hi[d];
      } else if (Value some = unitExists(x.lo[d], x.hi[d])) {
        e.hi[d] = select(b, loc, some, indexConstant(b, loc, to[d]), indexConstant(b, loc, 0));
      }
    }
    if (x.mask)
      e.mask = BroadcastOp::create(b, loc, RankedTensorType::get(to, b.getI1Type()), x.mask);
    set(op, e);
    return success();
  }

  LogicalResult resolve(ReshapeOp op) {
    if (!isTile(op.getX()))
      return success();
    Exist x = of(op.getX());
    ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
    if (to.empty()) {
      // A scalar always exists: 0 stands for a missing lane.
      if (Value exist = existTile(op.getX().getType(), x))
        op.getXMutable().assign(selectExisting(exist, op.getX(), zeroOf(elementOf(op.getType()))));
      return success();
    }
    Exist e(to.size());
    auto reshapeMask = [&](Value mask) -> Value {
      return mask ? ReshapeOp::create(b, loc, RankedTensorType::get(to, b.getI1Type()), mask) : Value();
    };
    if (auto map = unitReshapeMap(from, to)) {
      Value some;
      for (size_t d = 0; d < from.size(); ++d) {
        if (int at = (*map)[d]; at >= 0) {
          e.lo[at] = x.lo[d];
          e.hi[at] = x.hi[d];
        } else {
          some = both(some, unitExists(x.lo[d], x.hi[d]));
        }
      }
      if (some) // a dropped axis whose lane is missing leaves nothing on any axis
        for (size_t d = 0; d < to.size(); ++d)
          e.hi[d] = select(b, loc, some, e.hi[d] ? e.hi[d] : indexConstant(b, loc, to[d]),
                           indexConstant(b, loc, 0));
      e.mask = reshapeMask(x.mask);
    } else {
      e.mask = reshapeMask(existTile(op.getX().getType(), x));
    }
    set(op, e);
    return success();
  }

  LogicalResult resolve(PermuteOp op) {
    Exist x = of(op.getX()), e(x.lo.size());
    for (auto [d, from] : llvm::enumerate(op.getPerm())) {
      e.lo[d] = x.lo[from];
      e.hi[d] = x.hi[from];
    }
    if (x.mask)
      e.mask = PermuteOp::create(b, loc, withElement(op.getType(), b.getI1Type()), x.mask, op.getPerm());
    set(op, e);
    return success();
  }

  LogicalResult resolve(ReduceOp op);
  LogicalResult resolve(MmaOp op);
  LogicalResult resolve(scf::ForOp op);
  LogicalResult resolve(scf::IfOp op);
  LogicalResult resolve(scf::WhileOp op);
  Value reduceArg(ReduceOp op, const Exist &along);

  // --- what loops and branches carry beside their values

  /// Types of the further values for parts `p` of a value of type `type`.
  void carriedTypes(Type type, Parts p, SmallVectorImpl<Type> &types) {
    size_t rank = shapeOf(type).size();
    for (size_t d = 0; d < rank; ++d) {
      if (p.hasLo(d))
        types.push_back(b.getIndexType());
      if (p.hasHi(d))
        types.push_back(b.getIndexType());
    }
    if (p.hasMask())
      types.push_back(withElement(type, b.getI1Type()));
  }
  /// The further values themselves, from what exists of `v` here.
  void carriedValues(Value v, Parts p, SmallVectorImpl<Value> &values) {
    Exist e = of(v);
    for (size_t d = 0; d < e.lo.size(); ++d) {
      if (p.hasLo(d))
        values.push_back(e.lo[d] ? e.lo[d] : indexConstant(b, loc, 0));
      if (p.hasHi(d))
        values.push_back(e.hi[d] ? e.hi[d] : indexConstant(b, loc, shapeOf(v.getType())[d]));
    }
    if (p.hasMask())
      values.push_back(
          e.mask ? e.mask : constant(b, loc, withElement(v.getType(), b.getI1Type()), b.getBoolAttr(true)));
  }
  /// What exists of `v`, whose further values are the next of `values`.
  template <class It> void takeCarried(Value v, Parts p, It &values) {
    if (!p.bits)
      return;
    Exist e(shapeOf(v.getType()).size());
    for (size_t d = 0; d < e.lo.size(); ++d) {
      if (p.hasLo(d))
        e.lo[d] = *values++;
      if (p.hasHi(d))
        e.hi[d] = *values++;
    }
    if (p.hasMask())
      e.mask = *values++;
    set(v, e);
  }
  template <class R> SmallVector<Value> carriedValues(R values, ArrayRef<Parts> parts) {
    SmallVector<Value> more;
    for (auto [v, p] : llvm::zip_equal(values, parts))
      carriedValues(v, p, more);
    return more;
  }
  template <class R> void takeCarried(R values, ArrayRef<Parts> parts, ValueRange more) {
    auto it = more.begin();
    for (auto [v, p] : llvm::zip_equal(values, parts))
      takeCarried(v, p, it);
  }

  func::FuncOp func;
  IndexFacts facts;
  TailAnalysis analysis;
  DenseMap<Value, Exist> exists;
  DenseMap<std::tuple<Value, int64_t, Value>, Value> ends;
  SmallVector<KeepOp> keeps;
  bool hasProduct = false;
};

// --- reductions and products
// ------------------------------------------------------------------------------------------

/// argmax and argmin where missing lanes may come before existing ones: the first existing position of the
/// extreme value, 0 if there is none.
Value Resolver::reduceArg(ReduceOp op, const Exist &along) {
  bool isMax = op.getKind() == ReduceKind::k_argmax;
  Value x = op.getX();
  Type element = elementOf(x.getType());
  ReduceKind kind = isMax ? ReduceKind::k_max : ReduceKind::k_min;
  Value exist = existTile(x.getType(), along);
  Value seen = selectExisting(exist, x, identityOf(kind, element));
  Type valueType = withElement(op.getType(), element);
  Value extreme = ReduceOp::create(b, loc, valueType, kind, seen, op.getAxis());
  Value spread = BroadcastOp::create(b, loc, x.getType(), extreme);
  Value hit = compare(b, loc, ComparePred::k_eq, x, spread);
  if (isa<FloatType>(element)) {
    Type flags = withElement(x.getType(), b.getI1Type());
    Value bothNan = binary(b, loc, BinaryFn::k_bitand, UnaryOp::create(b, loc, flags, UnaryFn::k_isnan, x),
                           UnaryOp::create(b, loc, flags, UnaryFn::k_isnan, spread));
    hit = binary(b, loc, BinaryFn::k_bitor, hit, bothNan);
  }
  hit = both(hit, exist);
  auto never = b.getIndexAttr(std::numeric_limits<int64_t>::max());
  auto positions = cast<RankedTensorType>(withElement(x.getType(), b.getIndexType()));
  Value position = selectExisting(hit, IotaOp::create(b, loc, positions, op.getAxis()), never);
  Value first = ReduceOp::create(b, loc, op.getType(), ReduceKind::k_min, position, op.getAxis());
  Value found = compare(b, loc, ComparePred::k_ne, first, constant(b, loc, op.getType(), never));
  return selectExisting(found, first, b.getIndexAttr(0));
}

LogicalResult Resolver::resolve(ReduceOp op) {
  Exist x = of(op.getX());
  size_t axis = op.getAxis(), rank = x.lo.size();
  ReduceKind kind = op.getKind();
  Exist along(rank), result = x;
  along.lo[axis] = x.lo[axis];
  along.hi[axis] = x.hi[axis];
  along.mask = x.mask;
  result.lo[axis] = result.hi[axis] = result.mask = Value();
  Type type = op.getX().getType(), element = elementOf(type);
  bool isArg = kind == ReduceKind::k_argmax || kind == ReduceKind::k_argmin;
  Value reduced = op.getResult();
  bool incomplete = along.lo[axis] || along.hi[axis] || along.mask;
  if (incomplete && isArg && (along.mask || along.lo[axis])) {
    Value position = reduceArg(op, along);
    reduced.replaceAllUsesWith(position);
    op.erase();
    set(position, result);
    return success();
  }
  if (incomplete) {
    bool ignoresNan =
        (kind == ReduceKind::k_maxnum || kind == ReduceKind::k_minnum) && isa<FloatType>(element);
    TypedAttr identity = identityOf(kind, element);
    if (ignoresNan) {
      // Only NaN leaves "all existing lanes are NaN" alone; where no lane exists the identity is put back.
      TypedAttr nan =
          FloatAttr::get(element, llvm::APFloat::getNaN(cast<FloatType>(element).getFloatSemantics()));
      Value exist = existTile(type, along);
      op.getXMutable().assign(selectExisting(exist, op.getX(), nan));
      b.setInsertionPointAfter(op);
      Value some =
          ReduceOp::create(b, loc, withElement(op.getType(), b.getI1Type()), ReduceKind::k_any, exist, axis);
      Value fallback = constant(b, loc, op.getType(), identity);
      auto chosen = SelectOp::create(b, loc, op.getType(), some, reduced, fallback);
      reduced.replaceAllUsesExcept(chosen, chosen);
      reduced = chosen;
    } else if (isZero(identity)) {
      zeroOutside(op.getXMutable(), int(axis), along.lo[axis], along.hi[axis], along.mask);
    } else {
      fillUse(op.getXMutable(), along, identity);
    }
  }
  set(reduced, result);
  return success();
}

LogicalResult Resolver::resolve(MmaOp op) {
  Exist a = of(op.getA()), bb = of(op.getB()), result = of(op.getAcc());
  result.lo[0] = maxLo(result.lo[0], a.lo[0]);
  result.hi[0] = minHi(result.hi[0], a.hi[0]);
  result.lo[1] = maxLo(result.lo[1], bb.lo[1]);
  result.hi[1] = minHi(result.hi[1], bb.hi[1]);
  // Lanes of K missing on either side add nothing: zero on both sides, so that no 0 * NaN arises. Where masks
  // leave out a k for some rows or columns alone this cannot be; see maskedMma.
  Value lo = maxLo(a.lo[1], bb.lo[0]), hi = minHi(a.hi[1], bb.hi[0]);
  KMask aMask, bMask;
  if (isa<FloatType>(elementOf(op.getA().getType()))) { // 0 * integer is 0
    aMask = splitMask(*this, a.mask, 0);
    bMask = splitMask(*this, bb.mask, 1);
  }
  auto turned = [&](Value line, Value other) -> Value {
    if (!line)
      return Value();
    ArrayRef<int64_t> shape = shapeOf(line.getType());
    Value flipped =
        ReshapeOp::create(b, loc, RankedTensorType::get({shape[1], shape[0]}, b.getI1Type()), line);
    auto type = cast<RankedTensorType>(withElement(other.getType(), b.getI1Type()));
    return flipped.getType() == type ? flipped : BroadcastOp::create(b, loc, type, flipped).getResult();
  };
  zeroOutside(op.getAMutable(), 1, lo, hi, both(a.mask, turned(bMask.line, op.getA())));
  zeroOutside(op.getBMutable(), 0, lo, hi, both(bb.mask, turned(aMask.line, op.getB())));
  if (!aMask.rest && !bMask.rest) {
    set(op, result);
    return success();
  }
  Value product = maskedMma(*this, op, aMask.rest, bMask.rest);
  op.getResult().replaceAllUsesWith(product);
  op.erase();
  set(product, result);
  return success();
}

// --- control flow
// -----------------------------------------------------------------------------------------------------

LogicalResult Resolver::resolve(scf::ForOp loop) {
  SmallVector<Parts> parts = analysis.carried.lookup(loop);
  SmallVector<Value> inits = carriedValues(loop.getInitArgs(), parts);
  size_t count = loop.getNumRegionIterArgs();
  if (!inits.empty()) {
    auto same = [](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
      return SmallVector<Value>(args.begin(), args.end());
    };
    auto wider = loop.replaceWithAdditionalYields(b, inits, /*replaceInitOperandUsesInLoop=*/false, same);
    if (failed(wider))
      return loop.emitOpError("carries values whose extents cannot be carried (a fault of the compiler)");
    loop = cast<scf::ForOp>(wider->getOperation());
    facts = IndexFacts(); // block arguments have been replaced
    ends.clear();
  }
  auto args = loop.getRegionIterArgs();
  takeCarried(args.take_front(count), parts, ValueRange(args).drop_front(count));
  if (failed(process(*loop.getBody())))
    return failure();
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  b.setInsertionPoint(yield);
  SmallVector<Value> next = carriedValues(yield.getOperands().take_front(count), parts);
  for (auto [i, v] : llvm::enumerate(next))
    yield.setOperand(count + i, v);
  takeCarried(loop.getResults().take_front(count), parts, ValueRange(loop.getResults()).drop_front(count));
  return success();
}

LogicalResult Resolver::resolve(scf::IfOp branch) {
  SmallVector<Parts> parts = analysis.carried.lookup(branch);
  for (Region &region : branch->getRegions())
    if (!region.empty() && failed(process(region.front())))
      return failure();
  SmallVector<Type> types;
  for (auto [v, p] : llvm::zip(branch.getResults(), parts))
    carriedTypes(v.getType(), p, types);
  if (types.empty())
    return success();
  for (Region &region : branch->getRegions()) {
    Operation *yield = region.front().getTerminator();
    b.setInsertionPoint(yield);
    SmallVector<Value> more = carriedValues(yield->getOperands(), parts);
    yield->insertOperands(yield->getNumOperands(), more);
  }
  size_t count = branch.getNumResults();
  SmallVector<Type> allTypes(branch.getResultTypes());
  llvm::append_range(allTypes, types);
  b.setInsertionPoint(branch);
  auto wider = scf::IfOp::create(b, loc, allTypes, branch.getCondition(), /*addThenBlock=*/false,
                                 /*addElseBlock=*/false);
  wider.getThenRegion().takeBody(branch.getThenRegion());
  wider.getElseRegion().takeBody(branch.getElseRegion());
  branch->replaceAllUsesWith(wider.getResults().take_front(count));
  branch.erase();
  takeCarried(wider.getResults().take_front(count), parts, ValueRange(wider.getResults()).drop_front(count));
  return success();
}

LogicalResult Resolver::resolve(scf::WhileOp loop) {
  SmallVector<Parts> parts = analysis.carried.lookup(loop), results = analysis.whileResults.lookup(loop);
  size_t count = loop.getInits().size(), resultCount = loop.getNumResults();
  SmallVector<Value> inits(loop.getInits());
  llvm::append_range(inits, carriedValues(loop.getInits(), parts));
  SmallVector<Type> types(loop.getResultTypes()), moreTypes, moreBefore;
  for (auto [v, p] : llvm::zip_equal(loop.getResults(), results))
    carriedTypes(v.getType(), p, moreTypes);
  for (auto [v, p] : llvm::zip_equal(loop.getBeforeArguments(), parts))
    carriedTypes(v.getType(), p, moreBefore);
  llvm::append_range(types, moreTypes);
  auto wider = scf::WhileOp::create(b, loc, types, inits);
  wider.getBefore().takeBody(loop.getBefore());
  wider.getAfter().takeBody(loop.getAfter());
  for (Type t : moreBefore)
    wider.getBefore().addArgument(t, loc);
  for (Type t : moreTypes)
    wider.getAfter().addArgument(t, loc);
  loop->replaceAllUsesWith(wider.getResults().take_front(resultCount));
  loop.erase();
  facts = IndexFacts();
  ends.clear();

  ValueRange before = wider.getBeforeArguments(), after = wider.getAfterArguments();
  takeCarried(before.take_front(count), parts, before.drop_front(count));
  if (failed(process(*wider.getBeforeBody())))
    return failure();
  auto condition = wider.getConditionOp();
  b.setInsertionPoint(condition);
  condition.getArgsMutable().append(carriedValues(condition.getArgs(), results));
  takeCarried(after.take_front(resultCount), results, after.drop_front(resultCount));
  if (failed(process(*wider.getAfterBody())))
    return failure();
  auto yield = wider.getYieldOp();
  b.setInsertionPoint(yield);
  SmallVector<Value> next = carriedValues(yield.getOperands(), parts);
  yield->insertOperands(yield->getNumOperands(), next);
  ValueRange all = wider.getResults();
  takeCarried(all.take_front(resultCount), results, all.drop_front(resultCount));
  return success();
}

struct ResolveTails : sectile::passes::impl::ResolveTailsPassBase<ResolveTails> {
  void runOnOperation() override {
    if (failed(Resolver(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
