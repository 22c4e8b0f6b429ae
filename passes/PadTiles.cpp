// SPDX-License-Identifier: Apache-2.0
/// \file PadTiles: tile axes whose length has an odd factor above 15 grow to a length that threads can share.
///
/// Before: plain values of any lengths; missing lanes are explicit. After: a length has an odd factor of at
/// most 15, except where a reshape splits or joins the axis. The lanes past the old length hold anything;
/// memory is not touched for them, reductions and products see identities there. What grew is noted: on the
/// kernel as pairs (old, new) in `tgpu.padded`, on each memory access as the true lengths in `tgpu.lengths`.
///
/// A layout repeats the part of a length that is no power of two in registers of one thread: [7, 100] would
/// give 4 lanes 175 elements each. The new lengths of a tile are those of fewest registers per thread, then
/// of fewest elements; those of products are multiples that atoms fit.
///
/// 1. Axes that must have one length form classes: those of elementwise ops, loops and branches, the kept
///    axes of reductions and broadcasts, M, N and K of products.
/// 2. The largest tile chooses first, for all its classes at once.
/// 3. Types grow, then accesses get bounds, reductions and products get identities.

#include "passes/Passes.h"
#include "passes/TailExist.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <bit>

namespace sectile::passes {
#define GEN_PASS_DEF_PADTILESPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

constexpr int64_t largestOdd = 15;

bool isLong(int64_t length) { return length >> std::countr_zero(uint64_t(length)) > largestOdd; }

/// For each odd factor, the shortest length of at least `length` that `multiple` divides.
SmallVector<int64_t> longerLengths(int64_t length, int64_t multiple) {
  SmallVector<int64_t> result;
  for (int64_t odd = 1; odd <= largestOdd; odd += 2)
    result.push_back(odd * std::max(multiple, int64_t(std::bit_ceil(uint64_t((length + odd - 1) / odd)))));
  return result;
}

/// Registers per thread and elements of a tile spread over the warps that it would likely get.
std::pair<int64_t, int64_t> costOf(ArrayRef<int64_t> shape, int warps) {
  SmallVector<int32_t> lengths(shape.begin(), shape.end());
  int64_t elements = 1;
  for (int64_t n : shape)
    elements *= n;
  return {Layout::blocked(lengths, int(shape.size()) - 1, 1, warps).numRegs(), elements};
}

class Padder : ExistBuilder {
public:
  explicit Padder(func::FuncOp func) : ExistBuilder(func.getContext()), func(func) {}

  void run() {
    collect();
    if (!choose())
      return;
    setTypes();
    SmallVector<Operation *> ops;
    func.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      fix(op);
    note();
  }

private:
  // --- 1. classes of axes

  /// Of the axis of a tile; one per class is used.
  struct Axis {
    int64_t length = 1, padded = 0; ///< padded 0: undecided
    int64_t multiple = 1;           ///< of the new length: a power of two that lets atoms fit
    bool fixed = false;             ///< cannot grow
  };
  int idOf(Value v, size_t axis) {
    auto [it, isNew] = first.try_emplace(v, int(axes.size()));
    if (isNew) {
      values.push_back(v);
      for (int64_t length : shapeOf(v.getType())) {
        parents.push_back(int(parents.size()));
        axes.push_back({length});
      }
    }
    return it->second + int(axis);
  }
  int find(int i) {
    while (parents[i] != i)
      i = parents[i] = parents[parents[i]];
    return i;
  }
  void tie(Value x, size_t i, Value y, size_t j) {
    int from = find(idOf(y, j)), to = find(idOf(x, i));
    if (from == to)
      return;
    parents[from] = to;
    axes[to].fixed |= axes[from].fixed;
    axes[to].multiple = std::max(axes[to].multiple, axes[from].multiple);
  }
  void tieTiles(Value x, Value y) {
    if (isTile(x) && isTile(y))
      for (size_t d = 0; d < shapeOf(x.getType()).size(); ++d)
        tie(x, d, y, d);
  }
  void fixAll(Value v) {
    if (isTile(v))
      for (size_t d = 0; d < shapeOf(v.getType()).size(); ++d)
        axes[find(idOf(v, d))].fixed = true;
  }

  void collect() {
    func.walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value v : block.getArguments())
            if (isTile(v))
              idOf(v, 0);
      for (Value v : op->getResults())
        if (isTile(v))
          idOf(v, 0);
    });
    for (Value v : func.getArguments()) // of the function's type
      fixAll(v);
    func.walk([&](Operation *op) { tieOp(op); });
  }

  void tieOp(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<scf::ForOp, scf::IfOp, scf::WhileOp>(
            [&](auto op) { forPassedOn(op, [&](Value a, Value b) { tieTiles(a, b); }); })
        .Case<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, tgpu::GlobalGatherOp, tgpu::FillOutsideOp>(
            [&](auto op) {
              for (Value v : op->getOperands())
                tieTiles(op->getResult(0), v);
            })
        .Case([&](tgpu::GlobalStoreOp store) {
          if (store.getMask())
            tieTiles(store.getValue(), store.getMask());
        })
        .Case<BroadcastOp, ReduceOp>([&](auto op) {
          ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getResult().getType());
          for (size_t d = 0; d < from.size(); ++d)
            if (from[d] == to[d])
              tie(op.getX(), d, op.getResult(), d);
        })
        .Case([&](PermuteOp op) {
          for (auto [d, from] : llvm::enumerate(op.getPerm()))
            tie(op.getX(), size_t(from), op.getResult(), d);
        })
        .Case([&](ReshapeOp op) {
          if (!isTile(op.getX()) || !isTile(op.getResult()))
            return;
          auto map = unitReshapeMap(shapeOf(op.getX().getType()), shapeOf(op.getType()));
          if (!map) {
            fixAll(op.getX());
            fixAll(op.getResult());
            return;
          }
          for (auto [d, to] : llvm::enumerate(*map))
            if (to >= 0)
              tie(op.getX(), d, op.getResult(), size_t(to));
        })
        .Case([&](MmaOp op) {
          tieTiles(op.getAcc(), op.getResult());
          tie(op.getA(), 0, op.getAcc(), 0);
          tie(op.getB(), 1, op.getAcc(), 1);
          tie(op.getA(), 1, op.getB(), 0);
          // What the atoms of mma.sync take: 16 x 8 x 32 bytes of K.
          auto fit = [&](Value v, size_t axis, int64_t multiple) {
            Axis &a = axes[find(idOf(v, axis))];
            a.multiple = std::max(a.multiple, multiple);
          };
          fit(op.getAcc(), 0, 16);
          fit(op.getAcc(), 1, 8);
          fit(op.getA(), 1, 32 / int64_t(byteSize(*dtypeOfType(elementOf(op.getA().getType())))));
        })
        .Case<ConstantOp, SplatOp, IotaOp, tgpu::GlobalLoadOp, scf::YieldOp, scf::ConditionOp>([](auto) {})
        .Default([&](Operation *op) {
          llvm::for_each(op->getOperands(), [&](Value v) { fixAll(v); });
          llvm::for_each(op->getResults(), [&](Value v) { fixAll(v); });
        });
  }

  // --- 2. lengths

  bool choose() {
    SmallVector<Value> order(values);
    llvm::stable_sort(order, [](Value a, Value b) {
      return cast<RankedTensorType>(a.getType()).getNumElements() >
             cast<RankedTensorType>(b.getType()).getNumElements();
    });
    bool any = false;
    for (Value v : order)
      any |= chooseFor(v);
    return any;
  }

  bool chooseFor(Value v) {
    SmallVector<int64_t> shape(shapeOf(v.getType()));
    int64_t elements = cast<RankedTensorType>(v.getType()).getNumElements();
    int warps = int(std::clamp<uint64_t>(std::bit_ceil(uint64_t((elements + 1023) / 1024)), 4, 16));
    SmallVector<int> open; ///< classes to decide
    for (size_t d = 0; d < shape.size(); ++d) {
      Axis &axis = axes[find(idOf(v, d))];
      if (axis.padded)
        shape[d] = axis.padded;
      else if (!axis.fixed && isLong(axis.length) && !llvm::is_contained(open, find(idOf(v, d))))
        open.push_back(find(idOf(v, d)));
    }
    if (open.empty())
      return false;
    std::optional<std::pair<int64_t, int64_t>> least;
    SmallVector<int64_t> trial(open.size());
    auto search = [&](auto &self, size_t i) -> void {
      if (i < open.size()) {
        for (int64_t length : longerLengths(axes[open[i]].length, axes[open[i]].multiple)) {
          trial[i] = length;
          self(self, i + 1);
        }
        return;
      }
      SmallVector<int64_t> grown(shape);
      for (size_t d = 0; d < shape.size(); ++d)
        if (auto it = llvm::find(open, find(idOf(v, d))); it != open.end())
          grown[d] = trial[size_t(it - open.begin())];
      auto cost = costOf(grown, warps);
      if (least && *least <= cost)
        return;
      least = cost;
      for (size_t k = 0; k < open.size(); ++k)
        axes[open[k]].padded = trial[k];
    };
    search(search, 0);
    return true;
  }

  // --- 3. the rewrite

  /// The length before, of an axis that grew; 0 for others.
  int64_t oldLength(Value v, size_t axis) {
    auto it = first.find(v);
    if (it == first.end())
      return 0;
    const Axis &a = axes[find(it->second + int(axis))];
    return a.padded ? a.length : 0;
  }
  bool grew(Value v) {
    for (size_t d = 0; isTile(v) && d < shapeOf(v.getType()).size(); ++d)
      if (oldLength(v, d))
        return true;
    return false;
  }

  void setTypes() {
    for (Value v : values) {
      if (!grew(v))
        continue;
      SmallVector<int64_t> shape(shapeOf(v.getType()));
      for (size_t d = 0; d < shape.size(); ++d)
        if (oldLength(v, d))
          shape[d] = axes[find(idOf(v, d))].padded;
      auto type = RankedTensorType::get(shape, elementOf(v.getType()));
      v.setType(type);
      if (auto constant = v.getDefiningOp<ConstantOp>())
        constant.setValueAttr(
            cast<TypedAttr>(Attribute(cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type))));
    }
  }

  /// Lanes within the old lengths of the axes in `mask`.
  Exist oldLanes(Value v, uint32_t mask) {
    Exist e(shapeOf(v.getType()).size());
    for (size_t d = 0; d < e.hi.size(); ++d)
      if (int64_t length = (mask >> d) & 1 ? oldLength(v, d) : 0)
        e.hi[d] = indexConstant(b, loc, length);
    return e;
  }

  /// True if lanes past the old length of the axis hold this value.
  bool holdsPast(Value v, size_t axis, TypedAttr value) {
    Operation *op = v.getDefiningOp();
    if (!op)
      return false;
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case([&](tgpu::GlobalLoadOp load) { return load.getPad() == value; })
        .Case([&](tgpu::FillOutsideOp fill) { return fill.getFill() == value; })
        .Case([&](ConstantOp c) {
          return cast<SplatElementsAttr>(Attribute(c.getValue())).getSplatValue<Attribute>() == value;
        })
        .Case([&](CastOp cast) {
          return isZero(value) && holdsPast(cast.getX(), axis, zeroOf(elementOf(cast.getX().getType())));
        })
        .Case(
            [&](SelectOp s) { return holdsPast(s.getA(), axis, value) && holdsPast(s.getB(), axis, value); })
        .Case([&](PermuteOp p) { return holdsPast(p.getX(), size_t(p.getPerm()[axis]), value); })
        .Default(false);
  }
  void identityPast(OpOperand &use, size_t axis, TypedAttr identity) {
    if (oldLength(use.get(), axis) && !holdsPast(use.get(), axis, identity))
      use.set(fillMissing(use.get(), oldLanes(use.get(), 1u << axis), identity));
  }

  /// Axes in ascending order with their bounds, those that grew bounded by the old length.
  struct Bounds {
    SmallVector<int64_t> axes;
    SmallVector<Value> lo, hi;
  };
  template <class Op> Bounds withinOld(Op op, Value tile) {
    Bounds r{SmallVector<int64_t>(op.getAxes()), SmallVector<Value>(op.getLo()),
             SmallVector<Value>(op.getHi())};
    Exist e = oldLanes(tile, ~0u);
    for (size_t d = 0; d < e.hi.size(); ++d) {
      if (!e.hi[d])
        continue;
      size_t at = size_t(llvm::lower_bound(r.axes, int64_t(d)) - r.axes.begin());
      if (at < r.axes.size() && r.axes[at] == int64_t(d)) {
        r.hi[at] = minHi(r.hi[at], e.hi[d]);
        continue;
      }
      r.axes.insert(r.axes.begin() + at, int64_t(d));
      r.lo.insert(r.lo.begin() + at, indexConstant(b, loc, 0));
      r.hi.insert(r.hi.begin() + at, e.hi[d]);
    }
    return r;
  }
  void noteLengths(Operation *op, Value tile) {
    SmallVector<int64_t> lengths(shapeOf(tile.getType()));
    for (size_t d = 0; d < lengths.size(); ++d)
      if (int64_t old = oldLength(tile, d))
        lengths[d] = old;
    op->setAttr(tgpu::lengthsAttr, b.getDenseI64ArrayAttr(lengths));
  }

  /// The one result of an op, for that of another.
  void replace(Operation *op, Operation *by) {
    first[by->getResult(0)] = first[op->getResult(0)];
    op->getResult(0).replaceAllUsesWith(by->getResult(0));
    first.erase(op->getResult(0));
    op->erase();
  }

  void fix(Operation *op) {
    loc = op->getLoc();
    b.setInsertionPoint(op);
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](tgpu::GlobalLoadOp load) {
          if (!grew(load.getResult()))
            return;
          Bounds within = withinOld(load, load.getResult());
          auto padded = tgpu::GlobalLoadOp::create(b, loc, load.getType(), load.getX(), load.getOffsets(),
                                                   within.axes, within.lo, within.hi, load.getPad());
          padded->setDiscardableAttrs(load->getDiscardableAttrDictionary());
          noteLengths(padded, load.getResult());
          replace(load, padded);
        })
        .Case([&](tgpu::FillOutsideOp fill) { // what lies past the old lengths is anyone's: filled as well
          if (!grew(fill.getResult()))
            return;
          Bounds within = withinOld(fill, fill.getResult());
          replace(fill, tgpu::FillOutsideOp::create(b, loc, fill.getType(), fill.getX(), within.axes,
                                                    within.lo, within.hi, fill.getFill()));
        })
        .Case([&](tgpu::GlobalStoreOp store) {
          if (!grew(store.getValue()))
            return;
          Bounds within = withinOld(store, store.getValue());
          auto padded =
              tgpu::GlobalStoreOp::create(b, loc, store.getValue(), store.getX(), store.getOffsets(),
                                          within.axes, within.lo, within.hi, store.getMask());
          padded->setDiscardableAttrs(store->getDiscardableAttrDictionary());
          noteLengths(padded, store.getValue());
          store.erase();
        })
        .Case([&](tgpu::GlobalGatherOp gather) {
          if (!grew(gather.getResult()))
            return;
          noteLengths(gather, gather.getResult());
          Value mask = gather.getMask();
          gather.getMaskMutable().assign(both(existTile(mask.getType(), oldLanes(mask, ~0u)), mask));
        })
        .Case([&](ReduceOp reduce) {
          Type element = elementOf(reduce.getX().getType());
          TypedAttr identity = identityOf(reduce.getKind(), element);
          // One lane at least is true, so NaN, which these leave out, is neutral; an infinity is not.
          if (auto f = dyn_cast<FloatType>(element);
              f && llvm::is_contained({ReduceKind::k_maxnum, ReduceKind::k_minnum}, reduce.getKind()))
            identity = FloatAttr::get(f, llvm::APFloat::getNaN(f.getFloatSemantics()));
          identityPast(reduce.getXMutable(), size_t(reduce.getAxis()), identity);
        })
        .Case([&](MmaOp mma) {
          identityPast(mma.getAMutable(), 1, zeroOf(elementOf(mma.getA().getType())));
          identityPast(mma.getBMutable(), 0, zeroOf(elementOf(mma.getB().getType())));
        });
  }

  void note() {
    SmallVector<std::pair<int64_t, int64_t>> pairs;
    for (size_t i = 0; i < axes.size(); ++i)
      if (find(int(i)) == int(i) && axes[i].padded)
        pairs.push_back({axes[i].length, axes[i].padded});
    llvm::sort(pairs);
    pairs.erase(llvm::unique(pairs), pairs.end());
    SmallVector<Attribute> list;
    for (auto [from, to] : pairs)
      list.push_back(b.getDenseI64ArrayAttr({from, to}));
    func->setAttr(tgpu::paddedAttr, b.getArrayAttr(list));
  }

  func::FuncOp func;
  DenseMap<Value, int> first; ///< id of axis 0; the other axes follow
  SmallVector<Value> values;
  SmallVector<int> parents;
  std::vector<Axis> axes;
};

struct PadTiles : sectile::passes::impl::PadTilesPassBase<PadTiles> {
  void runOnOperation() override { Padder(getOperation()).run(); }
};

} // namespace
