// SPDX-License-Identifier: Apache-2.0
/// \file AssignLayouts: give every tile a thread layout.
///
/// Before: plain tensors. After: every tensor type has a #tgpu.layout; where a producer's and a consumer's
/// layouts differ a tgpu.convert_layout stands between them.
///
/// 1. Values made of scalars alone (constants, coordinates, masks of them) are made anew for each user, so
/// that they
///    tie nothing together.
/// 2. Values that elementwise ops, loops and branches tie together form classes of one layout each.
/// 3. Classes choose in this order: accumulators of products; those with global accesses, largest first: the
/// layout of
///    best coalescing; the others. What a choice implies through reduce, broadcast, permute, reshape is given
///    to the classes there at once, so small tiles follow large ones.
/// 4. Types are set and conversions put where an op needs another layout than its operand's class has.
/// 5. The function says what that costs (LayoutCost.h).

#include "passes/LayoutCost.h"
#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

namespace sectile::passes {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

// --- 1. values that are cheaper to make again than to move
// ------------------------------------------------------------

class Rematerialiser {
public:
  explicit Rematerialiser(func::FuncOp func) : func(func) {}

  void run() {
    SmallVector<OpOperand *> uses;
    SmallVector<Operation *> originals;
    func.walk([&](Operation *op) {
      if (cost(op) <= mostOps) {
        originals.push_back(op);
        return;
      }
      for (OpOperand &use : op->getOpOperands())
        if (isTile(use.get()) && cost(use.get().getDefiningOp()) <= mostOps)
          uses.push_back(&use);
    });
    for (OpOperand *use : uses) {
      Operation *def = use->get().getDefiningOp();
      if (isPrivate(def))
        continue;
      OpBuilder b(use->getOwner());
      DenseMap<Operation *, Operation *> made;
      use->set(clone(def, b, made)->getResult(0));
    }
    for (Operation *op : llvm::reverse(originals))
      if (op->use_empty())
        op->erase();
  }

private:
  static constexpr int mostOps = 16, tooMany = 1 << 20;

  /// Ops to make the result of `op` from scalars; tooMany if it depends on more than scalars.
  int cost(Operation *op) {
    if (!op)
      return tooMany;
    if (auto it = costs.find(op); it != costs.end())
      return it->second;
    int total = tooMany;
    if (op->getNumResults() == 1 && isTile(op->getResult(0))) {
      if (isa<ConstantOp, SplatOp, IotaOp>(op)) {
        total = 1;
      } else if (isa<BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, BroadcastOp>(op)) {
        total = 1;
        for (Value v : op->getOperands())
          if (isTile(v))
            total = std::min(tooMany, total + cost(v.getDefiningOp()));
      }
    }
    costs[op] = total;
    return total;
  }

  bool isPrivate(Operation *op) {
    return op->hasOneUse() && llvm::all_of(op->getOperands(), [&](Value v) {
             return !isTile(v) || isPrivate(v.getDefiningOp());
           });
  }

  Operation *clone(Operation *op, OpBuilder &b, DenseMap<Operation *, Operation *> &made) {
    if (Operation *done = made.lookup(op))
      return done;
    IRMapping map;
    for (Value v : op->getOperands())
      if (isTile(v))
        map.map(v, clone(v.getDefiningOp(), b, made)->getResult(0));
    Operation *copy = b.clone(*op, map);
    made[op] = copy;
    return copy;
  }

  func::FuncOp func;
  DenseMap<Operation *, int> costs;
};

// --- 2. to 4.
// ---------------------------------------------------------------------------------------------------------

class Assigner {
public:
  explicit Assigner(func::FuncOp func)
      : func(func), layouts(func.getContext()),
        warps(int(func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr).allWarps())) {}

  void run() {
    collect();
    choose();
    setTypes();
    func.walk([&](Operation *op) { fixOperands(op); });
  }

private:
  /// Values of one layout.
  struct Class {
    RankedTensorType type;
    std::optional<Layout> layout;
    std::optional<Layout> accumulator, fragment; ///< that products want, of sums and of operands in registers
    SmallVector<Operation *> links; ///< ops through which the choice goes on
    SmallVector<AccessFact> accesses;
    SmallVector<int64_t> accessBytes; ///< element size per access
    uint32_t reducedAxes = 0;
    int64_t elements() const { return type.getNumElements(); }
  };

  int idOf(Value v) {
    auto [it, isNew] = ids.try_emplace(v, int(parents.size()));
    if (isNew) {
      parents.push_back(it->second);
      values.push_back(v);
    }
    return it->second;
  }
  int find(int i) {
    while (parents[i] != i)
      i = parents[i] = parents[parents[i]];
    return i;
  }
  void tie(Value a, Value b) {
    if (isTile(a) && isTile(b))
      parents[find(idOf(b))] = find(idOf(a));
  }
  template <class R, class S> void tieAll(R a, S b) {
    for (auto [x, y] : llvm::zip_equal(a, b))
      tie(x, y);
  }
  Class &classOf(Value v) { return classes[find(idOf(v))]; }
  const Layout &layoutOf(Value v) { return *classOf(v).layout; }

  static bool isElementwise(Operation *op) {
    return isa<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, tgpu::GlobalGatherOp, tgpu::FillOutsideOp>(op);
  }
  static bool isLink(Operation *op) {
    return isa<ReduceOp, BroadcastOp, PermuteOp>(op) ||
           (isa<ReshapeOp>(op) && isTile(op->getOperand(0)) && isTile(op->getResult(0)));
  }

  const MmaRow *rowOf(MmaOp op) {
    auto atom = op->getAttrOfType<tgpu::AtomAttr>(atomAttr);
    return atom ? findMma(std::string_view(atom.getName())) : nullptr;
  }
  /// Of the accumulator, or of a in registers.
  Layout fragmentOf(tgpu::WgmmaOp op, MmaOperand which) {
    const MmaRow &row = *findMma(std::string_view(op.getAtom().getName()));
    SmallVector<int32_t> acc = shape32(op.getAcc().getType());
    auto [groupsM, groupsN] = *warpGrid(row, acc[0], acc[1], row.k, warps);
    if (which == MmaOperand::C)
      return *warpTiled(row.c.layout, acc, groupsM, groupsN, which);
    return *warpTiled(row.a.layout, shape32(op.getA().getType()), groupsM, groupsN, which);
  }
  Layout fragmentOf(MmaOp op, const MmaRow &row, MmaOperand which) {
    ArrayRef<int64_t> a = shapeOf(op.getA().getType()), b = shapeOf(op.getB().getType());
    auto [warpsM, warpsN] = *warpGrid(row, int(a[0]), int(b[1]), int(a[1]), warps);
    Value v = which == MmaOperand::A ? op.getA() : which == MmaOperand::B ? op.getB() : op.getAcc();
    return *warpTiled(row.operand(which).layout, shape32(v.getType()), warpsM, warpsN, which);
  }

  void collect();
  void tieOp(Operation *op);
  void choose();
  void give(Class &c, const Layout &layout);
  void passOn(Operation *link);
  Layout coalesced(const Class &c);
  static Layout neighbourly(const Layout &layout, int axis, int vector);
  void setTypes();
  void fixOperands(Operation *op);
  void convertOperand(OpOperand &use, const Layout &layout);
  void convertResult(OpResult result, const Layout &produced);

  func::FuncOp func;
  LayoutCache layouts;
  IndexFacts facts;
  int warps;
  DenseMap<Value, int> ids;
  SmallVector<Value> values;
  SmallVector<int> parents;
  std::vector<Class> classes; ///< by id; those of representatives are used
};

void Assigner::tieOp(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<scf::ForOp, scf::IfOp, scf::WhileOp>(
          [&](auto op) { forPassedOn(op, [&](Value a, Value b) { tie(a, b); }); })
      .Case<MmaOp, tgpu::WgmmaOp>([&](auto mma) { tie(mma.getAcc(), mma.getResult()); })
      .Case([&](tgpu::CombinePartsOp parts) { tieAll(parts.getValues(), parts.getTotals()); })
      .Case([&](tgpu::GlobalStoreOp store) {
        if (store.getMask())
          tie(store.getValue(), store.getMask());
      })
      .Default([&](Operation *op) {
        if (!isElementwise(op))
          return;
        for (Value v : op->getOperands())
          tie(op->getResult(0), v);
      });
}

void Assigner::collect() {
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value v : block.getArguments())
          if (isTile(v))
            idOf(v);
    for (Value v : op->getResults())
      if (isTile(v))
        idOf(v);
  });
  func.walk<WalkOrder::PreOrder>([&](Operation *op) { tieOp(op); });
  classes.resize(parents.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Class &c = classes[find(int(i))];
    if (!c.type)
      c.type = cast<RankedTensorType>(values[i].getType());
  }
  auto access = [&](Value tile, auto a) {
    AccessFact fact = accessFact(facts, tgpu::GlobalAccess(a));
    Class &c = classOf(tile);
    c.accesses.push_back(fact);
    c.accessBytes.push_back(int64_t(byteSize(*dtypeOfType(elementOf(tile.getType())))));
  };
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isLink(op)) {
      classOf(op->getOperand(0)).links.push_back(op);
      classOf(op->getResult(0)).links.push_back(op);
    }
    if (auto reduce = dyn_cast<ReduceOp>(op))
      classOf(reduce.getX()).reducedAxes |= 1u << reduce.getAxis();
    else if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
      access(load.getResult(), load);
    else if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op))
      access(store.getValue(), store);
    else if (auto mma = dyn_cast<MmaOp>(op))
      if (const MmaRow *row = rowOf(mma))
        if (Class &c = classOf(mma.getAcc()); !c.accumulator)
          c.accumulator = fragmentOf(mma, *row, MmaOperand::C);
    if (auto mma = dyn_cast<tgpu::WgmmaOp>(op)) {
      if (Class &c = classOf(mma.getAcc()); !c.accumulator)
        c.accumulator = fragmentOf(mma, MmaOperand::C);
      // What feeds a in registers is best computed where it is needed.
      if (isTile(mma.getA()))
        if (Class &c = classOf(mma.getA()); !c.fragment)
          c.fragment = fragmentOf(mma, MmaOperand::A);
    }
  });
}

/// Neighbouring elements in memory to one thread, then to neighbouring lanes; warps first along axes that no
/// reduction folds.
Layout Assigner::coalesced(const Class &c) {
  SmallVector<int32_t> shape = shape32(c.type);
  int rank = int(shape.size());
  int axis = rank - 1;
  while (axis > 0 && shape[axis] == 1)
    --axis;
  int64_t vector = 1, bestBytes = 0;
  for (auto [access, bytes] : llvm::zip_equal(c.accesses, c.accessBytes))
    if (access.elems * bytes > bestBytes) {
      bestBytes = access.elems * bytes;
      axis = access.axis;
    }
  for (const AccessFact &access : c.accesses)
    if (access.axis == axis)
      vector = std::max(vector, access.elems);
  // Work for every thread comes before wide accesses.
  int64_t perThread = std::max<int64_t>(1, c.elements() / (int64_t(warps) * warpSize));
  while (vector > perThread)
    vector /= 2;
  // So do threads without copies: odd factors are repetitions, which no thread can share.
  int64_t shared = 1;
  for (int32_t length : shape)
    shared *= length & -length;
  while (vector > 1 && vector * warps * warpSize > shared)
    vector /= 2;
  SmallVector<int> order{axis}, warpOrder;
  for (int d = rank - 1; d >= 0; --d)
    if (d != axis)
      order.push_back(d);
  for (bool reduced : {false, true})
    for (int d : order)
      if (((c.reducedAxes >> d) & 1) == uint32_t(reduced))
        warpOrder.push_back(d);
  return neighbourly(Layout::blocked(shape, order, int(vector), warps, warpOrder), axis, int(vector));
}

/// Each warp's part of the axis in one piece, so that few warps meet the end of a row, and those behind it none of
/// it: of the steps along the axis, vectors apart, registers take the short ones and warps the long ones.
Layout Assigner::neighbourly(const Layout &layout, int axis, int vector) {
  std::vector<Coords> regs = layout.reg(), warpBases = layout.warp();
  auto along = [&](const Coords &basis) {
    Coords c;
    c[axis] = basis[axis];
    return basis[axis] >= vector && basis == c;
  };
  SmallVector<Coords *> slots;
  for (std::vector<Coords> *bases : {&regs, &warpBases})
    for (Coords &basis : *bases)
      if (along(basis))
        slots.push_back(&basis);
  SmallVector<Coords> steps;
  for (Coords *slot : slots)
    steps.push_back(*slot);
  llvm::sort(steps, [&](const Coords &a, const Coords &b) { return a[axis] < b[axis]; });
  for (auto [slot, step] : llvm::zip_equal(slots, steps))
    *slot = step;
  return Layout(layout.rank(), layout.core(), layout.reps(), regs, layout.lane(), warpBases);
}

void Assigner::give(Class &c, const Layout &layout) {
  if (c.layout)
    return;
  SmallVector<Class *> todo{&c};
  c.layout = layout;
  while (!todo.empty()) {
    Class *from = todo.pop_back_val();
    for (Operation *link : from->links) {
      Class &x = classOf(link->getOperand(0)), &r = classOf(link->getResult(0));
      Class &other = x.layout ? r : x;
      if (x.layout && r.layout)
        continue;
      passOn(link);
      if (other.layout)
        todo.push_back(&other);
    }
  }
}

/// One side of `link` has a layout: the other gets the one that needs no conversion, unless it has better
/// claims.
void Assigner::passOn(Operation *link) {
  Class &x = classOf(link->getOperand(0)), &r = classOf(link->getResult(0));
  ArrayRef<int64_t> from = x.type.getShape(), to = r.type.getShape();
  llvm::TypeSwitch<Operation *>(link)
      .Case([&](ReduceOp op) {
        if (x.layout)
          r.layout = x.layout->collapse(int(op.getAxis()));
      })
      .Case([&](BroadcastOp op) {
        if (!r.layout)
          return;
        x.layout = r.layout;
        for (size_t d = 0; d < to.size(); ++d)
          if (from[d] != to[d])
            x.layout = x.layout->collapse(int(d));
      })
      .Case([&](PermuteOp op) {
        SmallVector<int> perm(op.getPerm().begin(), op.getPerm().end()), inverse(perm.size());
        SmallVector<int> moving;
        for (int d : perm)
          if (from[d] != 1)
            moving.push_back(d);
        // A true transposition between two global accesses: each side keeps its own order.
        Class &other = x.layout ? r : x;
        if (!llvm::is_sorted(moving) && !other.accesses.empty())
          return;
        for (size_t d = 0; d < perm.size(); ++d)
          inverse[perm[d]] = int(d);
        if (x.layout)
          r.layout = x.layout->permute(perm);
        else
          x.layout = r.layout->permute(inverse);
      })
      .Case([&](ReshapeOp op) {
        Class &other = x.layout ? r : x;
        if (!other.accesses.empty() && !unitReshapeMap(from, to))
          return;
        if (x.layout)
          r.layout = reshapeLayout(*x.layout, from, to);
        else
          x.layout = reshapeLayout(*r.layout, to, from);
      });
}

void Assigner::choose() {
  SmallVector<Class *> all;
  for (size_t i = 0; i < classes.size(); ++i)
    if (find(int(i)) == int(i))
      all.push_back(&classes[i]);
  for (Class *c : all)
    if (c->accumulator)
      give(*c, *c->accumulator);
  for (Class *c : all)
    if (c->fragment && c->accesses.empty())
      give(*c, *c->fragment);
  llvm::stable_sort(all, [](Class *a, Class *b) { return a->elements() > b->elements(); });
  for (Class *c : all)
    if (!c->accesses.empty())
      give(*c, coalesced(*c));
  for (Class *c : all)
    give(*c, coalesced(*c));
}

void Assigner::setTypes() {
  for (Value v : values) {
    auto type = layouts.with(v.getType(), layoutOf(v));
    v.setType(type);
    if (auto constant = v.getDefiningOp<ConstantOp>())
      constant.setValueAttr(
          cast<TypedAttr>(Attribute(cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type))));
  }
}

void Assigner::convertOperand(OpOperand &use, const Layout &layout) {
  if (layouts.of(use.get()) == layout)
    return;
  OpBuilder b(use.getOwner());
  use.set(tgpu::ConvertLayoutOp::create(b, use.getOwner()->getLoc(),
                                        layouts.with(use.get().getType(), layout), use.get()));
}

/// The op makes its result in the layout `produced`, its users expect that of the class.
void Assigner::convertResult(OpResult result, const Layout &produced) {
  if (layouts.of(Value(result)) == produced)
    return;
  Type wanted = result.getType();
  result.setType(layouts.with(wanted, produced));
  OpBuilder b(result.getOwner()->getContext());
  b.setInsertionPointAfter(result.getOwner());
  auto convert = tgpu::ConvertLayoutOp::create(b, result.getOwner()->getLoc(), wanted, result);
  result.replaceAllUsesExcept(convert, convert.getOperation());
}

void Assigner::fixOperands(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ReduceOp op) {
        convertResult(cast<OpResult>(op.getResult()), layouts.of(op.getX()).collapse(int(op.getAxis())));
      })
      .Case([&](BroadcastOp op) {
        Layout needed = layouts.of(op.getResult());
        ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        for (size_t d = 0; d < to.size(); ++d)
          if (from[d] != to[d])
            needed = needed.collapse(int(d));
        convertOperand(op.getXMutable(), needed);
      })
      .Case([&](PermuteOp op) {
        SmallVector<int> perm(op.getPerm().begin(), op.getPerm().end());
        convertResult(cast<OpResult>(op.getResult()), layouts.of(op.getX()).permute(perm));
      })
      .Case([&](ReshapeOp op) {
        if (!isLink(op))
          return;
        ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        auto produced = reshapeLayout(layouts.of(op.getX()), from, to);
        if (!produced && reshapeKeepsRegisters(from, to)) {
          Layout rowMajor = Layout::blocked(shape32(op.getX().getType()), int(from.size()) - 1, 1, warps);
          produced = reshapeLayout(rowMajor, from, to);
          convertOperand(op.getXMutable(), rowMajor);
        }
        // Else: through shared memory, from any layout to any other.
        if (produced)
          convertResult(cast<OpResult>(op.getResult()), *produced);
      })
      .Case([&](MmaOp op) {
        const MmaRow *row = rowOf(op);
        if (!row)
          return;
        Layout accumulator = fragmentOf(op, *row, MmaOperand::C);
        convertOperand(op.getAMutable(), fragmentOf(op, *row, MmaOperand::A));
        convertOperand(op.getBMutable(), fragmentOf(op, *row, MmaOperand::B));
        convertOperand(op.getAccMutable(), accumulator);
        convertResult(cast<OpResult>(op.getResult()), accumulator);
      })
      .Case([&](tgpu::WgmmaOp op) {
        Layout accumulator = fragmentOf(op, MmaOperand::C);
        if (isTile(op.getA()))
          convertOperand(op.getAMutable(), fragmentOf(op, MmaOperand::A));
        convertOperand(op.getAccMutable(), accumulator);
        convertResult(cast<OpResult>(op.getResult()), accumulator);
      });
}

struct AssignLayouts : sectile::passes::impl::AssignLayoutsPassBase<AssignLayouts> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr)) {
      func.emitError() << "has no launch geometry [assign_layouts_c1]; run sectile-select-mma first";
      return signalPassFailure();
    }
    Rematerialiser(func).run();
    Assigner(func).run();
    stateLayoutCost(func);
  }
};

} // namespace
