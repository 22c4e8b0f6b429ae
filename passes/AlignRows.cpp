// SPDX-License-Identifier: Apache-2.0
/// \file AlignRows: tiles over rows that start anywhere in memory begin at an aligned address instead.
///
/// Before: tile.load, tile.store with implicit tails. After: the same, where it is legal and known to help the
/// tile of a whole row starts up to a vector earlier, or up to a line of memory where it is long enough,
/// `tgpu.misalign` elements before the row, so that all vectors but the first and the last of the row are whole. What lies before the row does not exist, by the
/// rules of tails. Accesses whose first element is then aligned carry `tgpu.aligned`, in bytes.
///
/// A coordinate of a tile along one axis is a place; places that ops tie together move together. They may
/// move if every access among them covers its whole tensor axis from 0, with room for one vector more, in rows
/// that one program steps to (one row per tile), and if no op asks where an element is, but iota, which is
/// corrected.

#include "ir/AccessPlan.h"
#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/IR/Dominance.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile::passes {
#define GEN_PASS_DEF_ALIGNROWSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

constexpr int64_t line = 128; ///< bytes that memory and caches keep together

/// An axis of a tile value.
using Place = std::pair<Value, int>;

/// A load or store, seen along one axis.
struct Access {
  Operation *op;
  Value tensor, tile;
  OperandRange offsets;
  int axis;

  BlockArgument argument() const {
    auto arg = dyn_cast<BlockArgument>(tensor);
    return arg && isa<func::FuncOp>(arg.getOwner()->getParentOp()) ? arg : BlockArgument();
  }
  template <class A> A attribute(StringRef name) const {
    BlockArgument arg = argument();
    return arg ? cast<func::FuncOp>(arg.getOwner()->getParentOp())
                     .getArgAttrOfType<A>(arg.getArgNumber(), name)
               : A();
  }
  int64_t entry(StringRef name, int d) const {
    auto all = attribute<DenseI64ArrayAttr>(name);
    return all && d < all.size() ? all[d] : -1;
  }
  int64_t elementBytes() const { return int64_t(byteSize(*dtypeOfType(elementOf(tile.getType())))); }
  int64_t length() const { return shapeOf(tile.getType())[size_t(axis)]; }
  int64_t vector() const { return std::max<int64_t>(1, tgpu::widestAccess / elementBytes()); }
  int64_t align() const {
    auto attr = attribute<IntegerAttr>(alignAttr);
    return attr ? attr.getInt() : elementBytes();
  }
  bool isUnitStride() const {
    auto unit = attribute<IntegerAttr>(unitStrideAttr);
    return unit && unit.getInt() == axis;
  }
  /// One row: every other axis has length 1.
  bool isOneRow() const { return cast<RankedTensorType>(tile.getType()).getNumElements() == length(); }
  /// Rows start at different places inside a vector, or are not known to start at one.
  bool isMisaligned() const {
    if (align() < tgpu::widestAccess)
      return true;
    for (int d = 0; d < int(offsets.size()); ++d)
      if (d != axis && entry(strideRemAttr, d) > 0)
        return true;
    return false;
  }
};

class Aligner {
public:
  explicit Aligner(func::FuncOp func) : func(func), dominance(func) {}

  void run() {
    func.walk([&](Operation *op) { visit(op); });
    // By component, in the order of the first access.
    llvm::MapVector<Place, SmallVector<Access>> components;
    for (Access &access : accesses)
      components[leader({access.tile, access.axis})].push_back(access);
    for (auto &[place, members] : components)
      if (!stuck.contains(place))
        align(place, members);
  }

private:
  Place leader(Place p) { return places.getOrInsertLeaderValue(p); }
  void tie(Value a, int i, Value b, int j) {
    Place p = leader({a, i}), q = leader({b, j});
    if (p == q)
      return;
    bool isStuck = stuck.erase(p) | stuck.erase(q);
    places.unionSets(p, q);
    if (isStuck)
      stuck.insert(leader(p));
  }
  void tieAll(Value a, Value b) {
    if (isTile(a) && isTile(b))
      for (int d = 0; d < int(shapeOf(a.getType()).size()); ++d)
        tie(a, d, b, d);
  }
  void hold(Value v) {
    if (isTile(v))
      for (int d = 0; d < int(shapeOf(v.getType()).size()); ++d)
        stuck.insert(leader({v, d}));
  }

  void visit(Operation *op) {
    auto axes = [](Value v) { return int(shapeOf(v.getType()).size()); };
    llvm::TypeSwitch<Operation *>(op)
        .Case<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, KeepOp, FillOp, GatherOp>([&](auto op) {
          for (Value v : op->getOperands())
            tieAll(op->getResult(0), v);
        })
        .Case<ConstantOp, SplatOp>([](auto) {})
        .Case([&](IotaOp op) { iotas.push_back(op); })
        .Case([&](LoadOp op) {
          for (int d = 0; d < axes(op.getResult()); ++d)
            accesses.push_back({op, op.getX(), op.getResult(), op.getOffsets(), d});
        })
        .Case([&](StoreOp op) {
          for (int d = 0; d < axes(op.getValue()); ++d)
            accesses.push_back({op, op.getX(), op.getValue(), op.getOffsets(), d});
        })
        .Case([&](BroadcastOp op) {
          for (int d = 0; d < axes(op.getResult()); ++d)
            if (shapeOf(op.getX().getType())[d] == shapeOf(op.getType())[d])
              tie(op.getX(), d, op.getResult(), d);
        })
        .Case([&](PermuteOp op) {
          for (auto [d, from] : llvm::enumerate(op.getPerm()))
            tie(op.getResult(), int(d), op.getX(), int(from));
        })
        .Case([&](ReshapeOp op) {
          if (!isTile(op.getX()) || !isTile(op.getResult()))
            return;
          auto map = unitReshapeMap(shapeOf(op.getX().getType()), shapeOf(op.getType()));
          if (!map) {
            hold(op.getX());
            hold(op.getResult());
            return;
          }
          for (auto [d, to] : llvm::enumerate(*map))
            if (to >= 0)
              tie(op.getX(), int(d), op.getResult(), to);
        })
        .Case([&](ReduceOp op) {
          int axis = int(op.getAxis());
          for (int d = 0; d < axes(op.getX()); ++d)
            if (d != axis)
              tie(op.getX(), d, op.getResult(), d);
          if (op.getKind() == ReduceKind::k_argmax || op.getKind() == ReduceKind::k_argmin)
            stuck.insert(leader({op.getX(), axis}));
        })
        .Case<scf::ForOp, scf::IfOp, scf::WhileOp>(
            [&](auto op) { forPassedOn(op, [&](Value a, Value b) { tieAll(a, b); }); })
        .Default([&](Operation *op) {
          if (op->hasTrait<OpTrait::IsTerminator>())
            return;
          llvm::for_each(op->getOperands(), [&](Value v) { hold(v); });
          llvm::for_each(op->getResults(), [&](Value v) { hold(v); });
        });
  }

  /// Where all of `values` are known: after the last of them.
  std::optional<OpBuilder::InsertPoint> after(ValueRange values) {
    OpBuilder b(func.getContext());
    b.setInsertionPointToStart(&func.getBody().front());
    Operation *last = nullptr;
    for (Value v : values) {
      Operation *def = v.getDefiningOp();
      if (!def) {
        if (!isa<func::FuncOp>(v.getParentBlock()->getParentOp()))
          return std::nullopt; // a loop's own value: rows of several trips
      } else if (!last || dominance.properlyDominates(last, def)) {
        last = def;
      }
    }
    if (last)
      b.setInsertionPointAfter(last);
    return b.saveInsertionPoint();
  }

  /// Elements of T's vectors that are aligned once the tile of `first` is.
  int64_t alignedElems(const Access &first, const Access &t) {
    if (!t.isUnitStride() || !t.isOneRow())
      return 1;
    bool same = t.tensor == first.tensor;
    int64_t elems = std::min(t.vector(), first.vector());
    if (!same) {
      elems = std::min(elems, std::max<int64_t>(1, t.align() / t.elementBytes()));
      if (first.align() < elems * first.elementBytes())
        return 1;
    }
    if (t.offsets.size() != first.offsets.size())
      return 1;
    for (int d = 0; d < int(t.offsets.size()); ++d) {
      if (d == t.axis)
        continue;
      if (t.offsets[size_t(d)] != first.offsets[size_t(d)])
        return 1;
      int64_t p = first.entry(strideRemAttr, d), q = t.entry(strideRemAttr, d);
      if (!same && (p < 0 || q < 0))
        return 1;
      while (!same && p % elems != q % elems)
        elems /= 2;
    }
    return elems;
  }

  void align(Place place, ArrayRef<Access> members) {
    // The access of the longest vectors decides how far the tile moves.
    const Access *first = nullptr;
    for (const Access &a : members)
      if (a.isUnitStride() && a.isOneRow() && a.vector() > 1 && a.length() >= 2 * a.vector() &&
          a.isMisaligned() && (!first || a.vector() > first->vector()))
        first = &a;
    if (!first)
      return;
    // To the start of a line, where the tile has room for that: a warp's vectors then fill whole sectors.
    int64_t bytes = line;
    for (const Access &a : members) {
      int64_t most = a.argument() ? a.entry(dimMaxAttr, a.axis) : 0;
      if (IndexFacts::constant(a.offsets[size_t(a.axis)]) != 0 || most <= 0)
        return;
      while (bytes >= tgpu::widestAccess && most + bytes / first->elementBytes() - 1 > a.length())
        bytes /= 2;
    }
    if (bytes < tgpu::widestAccess)
      return;
    auto at = after(first->offsets);
    if (!at)
      return;
    OpBuilder b(func.getContext());
    b.restoreInsertionPoint(*at);
    Location loc = first->op->getLoc();
    auto shift = tgpu::MisalignOp::create(b, loc, first->tensor, first->offsets, bytes);
    SmallVector<IotaOp> moved;
    for (IotaOp iota : iotas)
      if (leader({iota.getResult(), int(iota.getAxis())}) == place)
        moved.push_back(iota);
    // One distance for all: no value comes from before it, not even around a loop.
    bool reaches = llvm::all_of(
        members, [&](const Access &a) { return dominance.properlyDominates(shift.getOperation(), a.op); });
    for (Place p : places.members(place)) {
      Value v = p.first;
      if (auto arg = dyn_cast<BlockArgument>(v))
        reaches &= !arg.getOwner()->getParentOp()->isAncestor(shift) &&
                   dominance.properlyDominates(shift.getOperation(), arg.getOwner()->getParentOp());
      else if (!isa<ConstantOp, SplatOp>(v.getDefiningOp()))
        reaches &= dominance.properlyDominates(shift.getOperation(), v.getDefiningOp());
    }
    if (!reaches) {
      shift.erase();
      return;
    }
    Value start = BinaryOp::create(b, loc, BinaryFn::k_sub, indexConstant(b, loc, 0), shift);
    for (const Access &a : members) {
      if (int64_t elems = alignedElems(*first, a); elems > 1)
        a.op->setAttr(tgpu::alignedAttr, b.getI64IntegerAttr(elems * a.elementBytes()));
    }
    for (const Access &a : members) {
      unsigned operand = a.offsets.getBeginOperandIndex() + unsigned(a.axis);
      a.op->setOperand(operand, start);
    }
    for (IotaOp iota : moved) {
      b.setInsertionPointAfter(iota);
      Value distance = shift;
      if (Type element = elementOf(iota.getType()); element != distance.getType())
        distance = CastOp::create(b, iota.getLoc(), element, distance);
      Value far = SplatOp::create(b, iota.getLoc(), iota.getType(), distance);
      auto index = BinaryOp::create(b, iota.getLoc(), BinaryFn::k_sub, iota, far);
      iota.getResult().replaceAllUsesExcept(index, index);
    }
  }

  func::FuncOp func;
  DominanceInfo dominance;
  llvm::EquivalenceClasses<Place> places;
  DenseSet<Place> stuck;
  SmallVector<Access> accesses;
  SmallVector<IotaOp> iotas;
};

struct AlignRows : sectile::passes::impl::AlignRowsPassBase<AlignRows> {
  void runOnOperation() override { Aligner(getOperation()).run(); }
};

} // namespace
