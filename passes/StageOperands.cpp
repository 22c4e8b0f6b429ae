// SPDX-License-Identifier: Apache-2.0
/// \file StageOperands: products on warpgroups, with operands in shared memory.
///
/// Before: tile.mma with the atom that SelectMma chose. After: those with a wgmma atom are tgpu.wgmma. An operand that is
/// a bounded load, possibly reshaped and permuted, comes by tgpu.stage_load where the TMA unit can read it and the
/// addresses need no tiles, or where threads of the producer can copy it 4, 8 or 16 bytes at a time (AsyncLoads): by rule the
/// first where both can. A computed a stays in registers, a computed b goes through a buffer of its own; what it is
/// computed from is staged too, where it is a tile of some size that is loaded anew in each iteration. Products whose sums the
/// tensor cores keep to few bits begin at zero, and threads add what they give to the sums (Promotion.h).
///
/// A load and its shape ops are followed axis by axis: each axis of the operand is a run of axes of the tensor. The axis of
/// stride 1 must be one axis of the operand alone, the others in their own order the other one: then the boxes of the load
/// lie in shared memory as wgmma reads them.

#include "passes/AsyncLoads.h"
#include "passes/Passes.h"
#include "passes/Promotion.h"
#include "passes/Remarks.h"
#include "passes/RoleSlice.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

#include "llvm/ADT/SetVector.h"

namespace sectile::passes {
#define GEN_PASS_DEF_STAGEOPERANDSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// A load seen through permutations and reshapes: per axis of the tile the axes of the load that make it up, those of
/// length 1 left out.
struct SeenLoad {
  tgpu::GlobalLoadOp load;
  SmallVector<SmallVector<int64_t>> axes;
};

std::optional<SeenLoad> see(Value v) {
  if (auto load = v.getDefiningOp<tgpu::GlobalLoadOp>()) {
    SeenLoad seen{load, {}};
    for (auto [d, length] : llvm::enumerate(shapeOf(v.getType())))
      seen.axes.push_back(length == 1 ? SmallVector<int64_t>() : SmallVector<int64_t>{int64_t(d)});
    return seen;
  }
  if (auto op = v.getDefiningOp<PermuteOp>()) {
    auto seen = see(op.getX());
    if (!seen)
      return std::nullopt;
    SmallVector<SmallVector<int64_t>> axes;
    for (int64_t d : op.getPerm())
      axes.push_back(seen->axes[size_t(d)]);
    seen->axes = std::move(axes);
    return seen;
  }
  if (auto op = v.getDefiningOp<ReshapeOp>(); op && isTile(op.getX()) && isTile(v)) {
    auto seen = see(op.getX());
    if (!seen)
      return std::nullopt;
    ArrayRef<int64_t> lengths = shapeOf(seen->load.getType());
    SmallVector<int64_t> run;
    for (auto &group : seen->axes)
      run.append(group);
    seen->axes.clear();
    size_t next = 0;
    for (int64_t length : shapeOf(v.getType())) {
      SmallVector<int64_t> group;
      int64_t have = 1;
      while (have < length && next < run.size()) {
        have *= lengths[size_t(run[next])];
        group.push_back(run[next++]);
      }
      if (have != length)
        return std::nullopt; // an axis of the load is split
      seen->axes.push_back(std::move(group));
    }
    return seen;
  }
  return std::nullopt;
}

/// Smaller tiles are read before anyone waits for them.
constexpr int64_t leastStagedBytes = 4096;

/// An operand in shared memory; `mn`: M or N runs along its columns.
struct Operand {
  Value buffer;
  bool mn = false;
};

/// The widest span of a swizzle for rows of `length` elements of which `atom` belong together.
int64_t spanFor(int64_t length, int64_t atom, int64_t bytes) {
  for (int64_t span : {128, 64, 32})
    if (length * bytes % span == 0 && atom * bytes % span == 0)
      return span;
  return 0;
}

class Stager {
public:
  Stager(func::FuncOp func, int async) : func(func), async(async), b(func.getContext()) {}

  void run() {
    SmallVector<MmaOp> products;
    func.walk([&](MmaOp op) { products.push_back(op); });
    for (MmaOp op : products)
      if (auto atom = op->getAttrOfType<tgpu::AtomAttr>(atomAttr)) {
        const MmaRow *row = findMma(std::string_view(atom.getName()));
        if (row && row->kind == MmaKind::Wgmma)
          lower(op, atom, *row);
      }
    SetVector<Operation *> sources;
    for (tgpu::WgmmaOp op : lowered)
      if (op->getParentOp() != func.getOperation()) {
        if (isTile(op.getA()))
          collectLoads(op.getA(), op->getBlock(), sources);
        if (op.getB().getDefiningOp<tgpu::BufferAllocOp>())
          for (Operation *user : op.getB().getUsers())
            if (auto copy = dyn_cast<tgpu::CopyOp>(user))
              collectLoads(copy.getValue(), op->getBlock(), sources);
      }
    for (Operation *source : sources)
      stageSource(cast<tgpu::GlobalLoadOp>(source));
  }

private:
  void lower(MmaOp op, tgpu::AtomAttr atom, const MmaRow &row) {
    Location loc = op.getLoc();
    Value a = op.getA(), bTile = op.getB();
    auto stagedA = stage(a, true, row), stagedB = stage(bTile, false, row);
    if (!stagedB && row.policyOnly) {
      // Only the TMA unit and registers round: a computed b is for products of warps.
      if (auto other = op->getAttr(otherAtomAttr))
        op->setAttr(atomAttr, other);
      else
        op->removeAttr(atomAttr);
      return;
    }
    b.setInsertionPoint(op);
    if (!stagedB)
      stagedB = copied(loc, bTile, row);
    const bool promoted = isPromoted(op, row);
    Value acc = promoted ? constant(b, loc, op.getType(), zeroOf(elementOf(op.getType()))) : op.getAcc();
    auto product = tgpu::WgmmaOp::create(b, loc, op.getType(), atom, stagedA ? stagedA->buffer : a, stagedA && stagedA->mn,
                                         stagedB->buffer, stagedB->mn, acc);
    Value sum = product.getResult();
    if (promoted) {
      if (Operation *user = firstUser(op)) // until then the product is under way
        b.setInsertionPoint(user);
      sum = BinaryOp::create(b, loc, op.getType(), BinaryFn::k_add, op.getAcc(), sum);
    }
    op.getResult().replaceAllUsesWith(sum);
    op.erase();
    lowered.push_back(product);
    for (Value v : {a, bTile})
      eraseDead(v.getDefiningOp());
  }

  /// The first op of the product's block in which its result is used.
  static Operation *firstUser(MmaOp op) {
    Operation *first = nullptr;
    for (Operation *user : op.getResult().getUsers())
      if (Operation *here = op->getBlock()->findAncestorOpInBlock(*user); here && (!first || here->isBeforeInBlock(first)))
        first = here;
    return first;
  }

  static void eraseDead(Operation *op) {
    if (!op || !op->use_empty() || !isa<tgpu::GlobalLoadOp, PermuteOp, ReshapeOp>(op))
      return;
    Operation *source = op->getOperand(0).getDefiningOp();
    op->erase();
    eraseDead(source);
  }

  std::optional<Operand> stage(Value v, bool isA, const MmaRow &row) {
    auto seen = see(v);
    if (!seen)
      return std::nullopt;
    if (auto unit = tmaAxisOf(seen->load.getX()))
      if (auto panels = panelsOf(*seen, v, isA, row, *unit))
        if (Value buffer = staged(seen->load, *unit, panels->span, row.policyOnly)) {
          note(seen->load, *unit); // a copy whose rows start at lines of memory is faster still
          return Operand{buffer, panels->mn};
        }
    wishFor(*seen, v, isA, row);
    return std::nullopt;
  }

  /// How an operand lies in shared memory if `unit` is the axis of the load that has stride 1.
  struct Panels {
    int64_t span;
    bool mn;
  };
  static std::optional<Panels> panelsOf(const SeenLoad &seen, Value v, bool isA, const MmaRow &row, int64_t unit) {
    tgpu::GlobalLoadOp load = seen.load;
    if (!isZero(load.getPad()))
      return std::nullopt;
    ArrayRef<int64_t> shape = shapeOf(load.getType());
    const size_t kAxis = isA ? 1 : 0;
    auto isUnit = [&](ArrayRef<int64_t> axes) { return axes.size() == 1 && axes[0] == unit; };
    const bool mn = !isUnit(seen.axes[kAxis]);
    if (mn && (!row.mnMajor || !isUnit(seen.axes[1 - kAxis])))
      return std::nullopt;
    ArrayRef<int64_t> others = seen.axes[mn ? kAxis : 1 - kAxis];
    if (!llvm::is_sorted(others))
      return std::nullopt;
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(load.getType()))));
    const int64_t length = shape[size_t(unit)], rows = shapeOf(v.getType())[mn ? kAxis : 1 - kAxis];
    // What one instruction takes along M or N is whole panels; along K it steps inside a panel.
    const int64_t span = spanFor(length, mn ? (isA ? row.m : row.n) : length, bytes);
    bool fits = span && rows % 8 == 0;
    for (auto [d, l] : llvm::enumerate(shape))
      fits &= int64_t(d) == unit || l <= 256;
    return fits ? std::optional(Panels{span, mn}) : std::nullopt;
  }

  /// Notes on the argument that the operand could be staged if the tensor lay otherwise.
  void wishFor(const SeenLoad &seen, Value v, bool isA, const MmaRow &row) {
    tgpu::GlobalLoadOp load = seen.load;
    // The axis that has stride 1 already, else K, which every instruction takes.
    SmallVector<int64_t> candidates;
    if (auto unit = tmaAxisOf(load.getX()))
      candidates.push_back(*unit);
    for (ArrayRef<int64_t> axes : {seen.axes[isA ? 1 : 0], seen.axes[isA ? 0 : 1]})
      if (axes.size() == 1)
        candidates.push_back(axes[0]);
    ArrayRef<int64_t> shape = shapeOf(load.getType());
    for (int64_t unit : candidates) {
      if (!panelsOf(seen, v, isA, row, unit) || !startsAligned(load.getX(), load.getOffsets()[size_t(unit)]))
        continue;
      if (accessLimits(load.getOffsets(), shape, load.getAxes(), load.getLo(), load.getHi()) && comesFirst(load) &&
          RoleSlice().add(load))
        note(load, unit);
      return;
    }
  }

  /// Lets the launch copy the tensor so that `unit` has stride 1: see Repack in ir/base/Artifact.h.
  void note(tgpu::GlobalLoadOp load, int64_t unit) {
    auto arg = dyn_cast<BlockArgument>(load.getX());
    if (!arg || arg.getOwner()->getParentOp() != func.getOperation())
      return;
    const unsigned n = arg.getArgNumber();
    if (!func.getArgAttr(n, readOnlyAttr) || !func.getArgAttr(n, smallAttr) || func.getArgAttr(n, tgpu::repackAttr) ||
        cast<tileir::TensorType>(arg.getType()).getRank() < 2)
      return;
    SmallVector<int64_t> wish{unit};
    for (auto [offset, length] : llvm::zip_equal(load.getOffsets(), shapeOf(load.getType())))
      wish.push_back(isOfProgram(offset) ? length : 0);
    func.setArgAttr(n, tgpu::repackAttr, b.getDenseI64ArrayAttr(wish));
  }

  /// One value for a whole program.
  bool isOfProgram(Value v) {
    if (auto arg = dyn_cast<BlockArgument>(v))
      return arg.getOwner()->getParentOp() == func.getOperation();
    Operation *op = v.getDefiningOp();
    return op->getNumRegions() == 0 && (isa<GridOp>(op) || isMemoryEffectFree(op)) &&
           llvm::all_of(op->getOperands(), [&](Value o) { return isOfProgram(o); });
  }

  /// The load as a stage_load in panels of `span` bytes along axis `unit`, of stride 1, rounded to tf32 if asked for; null if
  /// it cannot be one.
  Value staged(tgpu::GlobalLoadOp load, int64_t unit, int64_t span, bool tf32) {
    ArrayRef<int64_t> shape = shapeOf(load.getType());
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(load.getType()))));
    const int64_t length = shape[size_t(unit)], rows = llvm::product_of(shapeOf(load.getType())) / length;
    auto limits = accessLimits(load.getOffsets(), shape, load.getAxes(), load.getLo(), load.getHi());
    if (!limits || !comesFirst(load) || !RoleSlice().add(load))
      return {};
    SmallVector<int64_t> order{unit}, box{span / bytes};
    for (int64_t d = int64_t(shape.size()); d-- > 0;)
      if (d != unit) {
        order.push_back(d);
        box.push_back(shape[size_t(d)]);
      }
    SmallVector<Attribute> texts;
    for (const std::string &limit : limits->limits)
      texts.push_back(b.getStringAttr(limit));
    auto map = tgpu::MapAttr::get(func.getContext(), order, box, span, b.getArrayAttr(texts), tf32);
    auto type = tgpu::BufferType::get(func.getContext(), {length * bytes / span, rows, span / bytes},
                                      elementOf(load.getType()), tgpu::tmaSwizzleOf(span, bytes));
    const auto axis = tmaAxis(load.getX());
    const bool byUnit = axis && startsAligned(load.getX(), load.getOffsets()[size_t(*axis)]);
    const int64_t copyBytes = async == 1 || (byUnit && async != 2) ? 0 : asyncCopyBytes(load, map, type);
    if (!byUnit && !copyBytes)
      return {};
    Value &buffer = made[{{load, int(tf32)}, type}];
    if (!buffer) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointAfter(load);
      buffer = tgpu::StageLoadOp::create(b, load.getLoc(), type, load.getX(), limits->placed(b, load.getLoc(), load.getOffsets()), map,
                                         copyBytes ? b.getI64IntegerAttr(copyBytes) : IntegerAttr());
    }
    return buffer;
  }

  /// Loads of this block that a value is computed from, element by element.
  static void collectLoads(Value v, Block *block, SetVector<Operation *> &loads) {
    Operation *op = v.getDefiningOp();
    if (!op || op->getBlock() != block)
      return;
    if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op)) {
      const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(load.getType()))));
      if (isTile(load.getResult()) && llvm::product_of(shapeOf(load.getType())) * bytes >= leastStagedBytes)
        loads.insert(op);
    } else if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, PermuteOp, ReshapeOp, tgpu::FillOutsideOp>(op)) {
      for (Value operand : op->getOperands())
        if (isTile(operand))
          collectLoads(operand, block, loads);
    }
  }

  /// A load through a pipe, into registers.
  void stageSource(tgpu::GlobalLoadOp load) {
    auto unit = tmaAxis(load.getX());
    ArrayRef<int64_t> shape = shapeOf(load.getType());
    if (!unit || !isZero(load.getPad()) || *unit != int64_t(shape.size()) - 1)
      return;
    Type element = elementOf(load.getType());
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(element))), length = shape.back();
    const int64_t rows = llvm::product_of(shapeOf(load.getType())) / length, span = spanFor(length, length, bytes);
    if (!span || rows % 8 || bytes > 4 || element.isInteger(1) ||
        llvm::any_of(shape.drop_back(), [](int64_t l) { return l > 256; }))
      return;
    Value buffer = staged(load, *unit, span, /*tf32=*/false);
    if (!buffer)
      return;
    Location loc = load.getLoc();
    b.setInsertionPointAfterValue(buffer);
    const int64_t columns = span / bytes, panels = length / columns;
    Value v = tgpu::CopyOutOp::create(b, loc, RankedTensorType::get({panels, rows, columns}, element), buffer);
    if (panels > 1)
      v = PermuteOp::create(b, loc, RankedTensorType::get({rows, panels, columns}, element), v,
                            b.getDenseI64ArrayAttr({1, 0, 2}));
    v = ReshapeOp::create(b, loc, load.getType(), v);
    load.getResult().replaceAllUsesWith(v);
    load.erase();
  }

  /// No store of this kernel to what is loaded can come before the load: the copy may run as early as it likes.
  bool comesFirst(tgpu::GlobalLoadOp load) {
    bool first = true;
    auto topOf = [&](Operation *op) {
      while (op->getParentOp() != func.getOperation())
        op = op->getParentOp();
      return op;
    };
    Operation *top = topOf(load);
    func.walk([&](tgpu::GlobalStoreOp store) {
      Operation *other = topOf(store);
      if (other == top || !top->isBeforeInBlock(other))
        first = first && !mayShareMemory(func, store.getX(), load.getX());
    });
    return first;
  }

  /// A computed [K, N] in a buffer, with N along the columns where the instruction takes that.
  Operand copied(Location loc, Value v, const MmaRow &row) {
    ArrayRef<int64_t> shape = shapeOf(v.getType());
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(v.getType()))));
    bool mn = row.mnMajor && spanFor(shape[1], row.n, bytes);
    if (auto seen = see(v)) // keep what is contiguous in memory
      if (auto unit = tmaAxisOf(seen->load.getX()); unit && seen->axes[0].size() == 1 && seen->axes[0][0] == *unit)
        mn = false;
    if (!mn) {
      v = PermuteOp::create(b, loc, RankedTensorType::get({shape[1], shape[0]}, elementOf(v.getType())), v,
                            b.getDenseI64ArrayAttr({1, 0}));
      shape = shapeOf(v.getType());
    }
    const int64_t span = mn ? spanFor(shape[1], row.n, bytes) : spanFor(shape[1], shape[1], bytes);
    const int64_t columns = span / bytes, panels = shape[1] / columns, rows = shape[0];
    Type element = elementOf(v.getType());
    if (panels > 1) {
      v = ReshapeOp::create(b, loc, RankedTensorType::get({rows, panels, columns}, element), v);
      v = PermuteOp::create(b, loc, RankedTensorType::get({panels, rows, columns}, element), v,
                            b.getDenseI64ArrayAttr({1, 0, 2}));
    } else {
      v = ReshapeOp::create(b, loc, RankedTensorType::get({1, rows, columns}, element), v);
    }
    auto type = tgpu::BufferType::get(b.getContext(), {panels, rows, columns}, element, tgpu::tmaSwizzleOf(span, bytes));
    Value buffer = tgpu::BufferAllocOp::create(b, loc, type, IntegerAttr());
    tgpu::CopyOp::create(b, loc, v, buffer);
    return {buffer, mn};
  }
  std::optional<int64_t> tmaAxisOf(Value tensor) {
    auto arg = dyn_cast<BlockArgument>(tensor);
    if (!arg || arg.getOwner()->getParentOp() != func.getOperation())
      return std::nullopt;
    auto unit = func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), unitStrideAttr);
    return unit ? std::optional(unit.getInt()) : std::nullopt;
  }

  func::FuncOp func;
  const int async;
  OpBuilder b;
  DenseMap<std::pair<std::pair<Operation *, int>, Type>, Value> made;
  SmallVector<tgpu::WgmmaOp> lowered;
};

struct StageOperands : sectile::passes::impl::StageOperandsPassBase<StageOperands> {
  using StageOperandsPassBase::StageOperandsPassBase;

  void runOnOperation() override {
    Stager(getOperation(), async).run();
    remarkOperands(getOperation());
  }
};

} // namespace
