// SPDX-License-Identifier: Apache-2.0
/// \file LowerConversions: conversions that move data between threads by shuffles or shared buffers.
///
/// Before: any tgpu.convert_layout. After: only those that rename registers, and those within warps where
/// shuffles cost less; the others are buffer_alloc, copy, copy_out, with the order of axes and the swizzle of fewest cycles
/// for the two layouts; where elements move between blocks of a cluster, peer_copy, peer_wait, copy_out.
/// Conversions that do not wait for each other first write all their buffers, then read them: one barrier
/// serves them all. Conversions of values from outside a loop leave it.
///
/// Costs are issue cycles of a warp on the pipe that shuffles and shared memory have in common: one per
/// shuffle, a quarter per select; one per 128 bytes stored or loaded, more with conflicts, and a barrier.

#include "ir/AccessPlan.h"
#include "ir/base/ShufflePlan.h"
#include "ir/base/Swizzle.h"
#include "passes/Passes.h"
#include "passes/Support.h"

namespace sectile::passes {
#define GEN_PASS_DEF_LOWERCONVERSIONSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// What a barrier costs a warp: about the time until the slowest of its block has stored.
constexpr double barrierCycles = 16;

/// Of a result that is converted before the ops that stood in front of it.
constexpr int mostEarlyRegisters = 4;

class ConversionLowering {
public:
  explicit ConversionLowering(func::FuncOp func)
      : func(func), layouts(func.getContext()), blocks(blocksPerProgram(func)) {
    if (auto name = func->getAttrOfType<StringAttr>(tgpu::targetAttr))
      target = findTarget(name.getValue());
  }

  void run() {
    func.walk([](tgpu::ConvertLayoutOp op) { hoist(op); });
    SmallVector<tgpu::ConvertLayoutOp> all;
    func.walk([&](tgpu::ConvertLayoutOp op) { all.push_back(op); });
    DenseSet<Operation *> done;
    for (tgpu::ConvertLayoutOp op : all)
      if (!done.contains(op) && movesData(op)) {
        SmallVector<tgpu::ConvertLayoutOp> group = gather(op);
        done.insert(group.begin(), group.end());
        lower(group);
      }
  }

private:
  /// What does not change in a loop is converted once, before it.
  static void hoist(tgpu::ConvertLayoutOp op) {
    while (auto loop = dyn_cast<LoopLikeOpInterface>(op->getParentOp())) {
      if (!loop.isDefinedOutsideOfLoop(op.getX()))
        return;
      op->moveBefore(loop);
    }
  }

  /// False where registers are renamed or shuffled, or nothing is left to do.
  bool movesData(tgpu::ConvertLayoutOp op) {
    if (conversionKind(layouts.of(op.getX()), layouts.of(op.getResult())) == ConversionKind::Same) {
      op.getResult().replaceAllUsesWith(op.getX());
      op.erase();
      return false;
    }
    return needsMemory(op);
  }
  bool needsMemory(tgpu::ConvertLayoutOp op) {
    const Layout &src = layouts.of(op.getX()), &dst = layouts.of(op.getResult());
    ConversionKind kind = conversionKind(src, dst);
    if (kind != ConversionKind::ShuffleLanes)
      return kind > ConversionKind::ShuffleLanes;
    auto [it, isNew] = memoryIsBest.try_emplace({op.getX().getType(), op.getType()}, true);
    if (isNew)
      if (auto plan = ShufflePlan::make(src, dst)) {
        const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(op.getType()))));
        it->second = plan->cost(int(bytes)) > double(placeFor(src, dst, shapeOf(op.getType()), elementOf(op.getType())).swizzle.cycles) + barrierCycles;
      }
    return it->second;
  }

  /// With ldmatrix and stmatrix where they serve a side.
  SwizzleChoice swizzleFor(const Layout &src, const Layout &dst, ArrayRef<int64_t> shape, Type element,
                           bool crosses = false) {
    auto plain = tgpu::BufferType::get(func.getContext(), shape, element, {});
    auto rows = [&](const Layout &l, Feature feature, bool writes) -> std::optional<Layout> {
      if (!target || !target->has(feature) || (writes && !l.isInjective()))
        return std::nullopt;
      auto matrices = tgpu::planMatrixLoads(plain, l);
      return matrices ? std::optional(matrices->rows) : std::nullopt;
    };
    std::optional<Layout> stores = crosses ? std::nullopt : rows(src, Feature::stmatrix, true),
                          loads = rows(dst, Feature::ldmatrix, false);
    return chooseSwizzle(src, dst, {shape.data(), shape.size()}, int64_t(byteSize(*dtypeOfType(element))),
                         stores ? &*stores : nullptr, loads ? &*loads : nullptr);
  }

  /// How a tile lies in its buffer.
  struct BufferPlace {
    SmallVector<int64_t> order; ///< axis i of the buffer is this axis of the tile
    SwizzleChoice swizzle;
  };
  /// Accesses are wide along the last axis of a buffer. Where a side has its neighbours along another one, that one may be the better last.
  BufferPlace placeFor(const Layout &src, const Layout &dst, ArrayRef<int64_t> shape, Type element, bool crosses = false) {
    BufferPlace best{llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size()))), swizzleFor(src, dst, shape, element, crosses)};
    const int last = int(shape.size()) - 1;
    if (crosses || byteSize(*dtypeOfType(element)) < 2) // bytes of a turned tile are put together one by one, in registers that products need
      return best;
    for (int axis = 0; axis < last; ++axis) {
      if (src.contiguousRun(axis) <= src.contiguousRun(last) && dst.contiguousRun(axis) <= dst.contiguousRun(last))
        continue;
      SmallVector<int64_t> order;
      for (int other = 0; other <= last; ++other)
        if (other != axis)
          order.push_back(other);
      order.push_back(axis);
      SwizzleChoice choice = swizzleFor(ordered(src, order), ordered(dst, order), ordered(shape, order), element);
      if (choice.cycles < best.swizzle.cycles)
        best = {std::move(order), std::move(choice)};
    }
    return best;
  }
  static Layout ordered(const Layout &layout, ArrayRef<int64_t> order) {
    SmallVector<int> perm(order.begin(), order.end());
    return layout.permute(perm);
  }
  static SmallVector<int64_t> ordered(ArrayRef<int64_t> shape, ArrayRef<int64_t> order) {
    return llvm::map_to_vector(order, [&](int64_t axis) { return shape[size_t(axis)]; });
  }
  /// A tile with its axes in that order: the same registers by other names.
  Value turned(OpBuilder &b, Location loc, Value x, ArrayRef<int64_t> order) {
    if (llvm::is_sorted(order))
      return x;
    auto type = RankedTensorType::get(ordered(shapeOf(x.getType()), order), elementOf(x.getType()));
    return PermuteOp::create(b, loc, layouts.with(type, ordered(layouts.of(x), order)), x, order);
  }

  /// `first` and the conversions behind it that do not need its result, brought together: what stands between
  /// and does not depend on the group goes before it. Such are the sum and the sum of squares of one row. Only
  /// results of few registers come so early; larger ones would lie in registers for long.
  SmallVector<tgpu::ConvertLayoutOp> gather(tgpu::ConvertLayoutOp first) {
    SmallVector<tgpu::ConvertLayoutOp> group{first};
    SmallPtrSet<Operation *, 16> dependent{first};
    SmallVector<Operation *> between;
    for (Operation *op = first->getNextNode(), *next; op; op = next) {
      next = op->getNextNode();
      if (op->getNumRegions() || op->hasTrait<OpTrait::IsTerminator>())
        break;
      bool depends = llvm::any_of(op->getOperands(), [&](Value v) {
        return v.getDefiningOp() && dependent.contains(v.getDefiningOp());
      });
      // Reads may pass the group, which touches no global memory; what has other effects ends the search.
      if (!isMemoryEffectFree(op) && (depends || !isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(op)))
        break;
      if (depends) {
        dependent.insert(op);
        continue;
      }
      auto convert = dyn_cast<tgpu::ConvertLayoutOp>(op);
      if (!convert || !needsMemory(convert)) {
        between.push_back(op);
        continue;
      }
      if (op != group.back()->getNextNode() && layouts.of(convert.getResult()).numRegs() > mostEarlyRegisters)
        break;
      for (Operation *other : between)
        other->moveBefore(first);
      between.clear();
      convert->moveAfter(group.back());
      group.push_back(convert);
      dependent.insert(convert);
    }
    return group;
  }

  void lower(ArrayRef<tgpu::ConvertLayoutOp> group) {
    OpBuilder b(group.front());
    struct Written {
      tgpu::ConvertLayoutOp op;
      Value buffer;
      SmallVector<int64_t> order;
    };
    SmallVector<Written> buffers;
    for (tgpu::ConvertLayoutOp op : group) {
      const Layout &src = layouts.of(op.getX()), &dst = layouts.of(op.getResult());
      ArrayRef<int64_t> shape = shapeOf(op.getType());
      Value x = op.getX();
      bool crosses = crossesBlocks(src, dst, blocks);
      if (crosses) // a copy to another block counts arrivals in whole words
        x = asWord(b, op.getLoc(), x);
      Type element = elementOf(x.getType());
      BufferPlace place = placeFor(src, dst, shape, element, crosses);
      auto type = tgpu::BufferType::get(b.getContext(), ordered(shape, place.order), element, place.swizzle.swizzle.parameters());
      x = turned(b, op.getLoc(), x, place.order);
      Value buffer = tgpu::BufferAllocOp::create(b, op.getLoc(), type, IntegerAttr());
      if (crosses)
        tgpu::PeerCopyOp::create(b, op.getLoc(), x, buffer);
      else
        tgpu::CopyOp::create(b, op.getLoc(), x, buffer);
      buffers.push_back({op, buffer, std::move(place.order)});
    }
    for (auto &[op, buffer, order] : buffers) {
      b.setInsertionPoint(op);
      Location loc = op.getLoc();
      auto type = cast<tgpu::BufferType>(buffer.getType());
      if (crossesBlocks(layouts.of(op.getX()), layouts.of(op.getResult()), blocks))
        tgpu::PeerWaitOp::create(b, loc, buffer);
      Type whole = tileir::withElement(op.getType(), type.getElementType());
      const bool isTurned = !llvm::is_sorted(order);
      Type inBuffer = isTurned ? Type(layouts.with(RankedTensorType::get(type.getShape(), type.getElementType()), ordered(layouts.of(whole), order))) : whole;
      Value result = tgpu::CopyOutOp::create(b, loc, inBuffer, buffer);
      if (isTurned) {
        SmallVector<int64_t> back(order.size());
        for (auto [to, from] : llvm::enumerate(order))
          back[size_t(from)] = int64_t(to);
        result = PermuteOp::create(b, loc, whole, result, back);
      }
      op.getResult().replaceAllUsesWith(fromWord(b, loc, result, elementOf(op.getType())));
      op.erase();
    }
  }

  /// Elements of less than 4 bytes as i32: the bits of a float, the value of an integer.
  static Value asWord(OpBuilder &b, Location loc, Value x) {
    Type element = elementOf(x.getType()), word = b.getI32Type();
    if (byteSize(*dtypeOfType(element)) >= 4)
      return x;
    return isa<FloatType>(element) ? Value(tgpu::BitsOp::create(b, loc, tileir::withElement(x.getType(), word), x))
                                   : Value(CastOp::create(b, loc, tileir::withElement(x.getType(), word), x));
  }
  static Value fromWord(OpBuilder &b, Location loc, Value x, Type element) {
    if (elementOf(x.getType()) == element)
      return x;
    Type type = tileir::withElement(x.getType(), element);
    return isa<FloatType>(element) ? Value(tgpu::BitsOp::create(b, loc, type, x))
                                   : Value(CastOp::create(b, loc, type, x));
  }

  func::FuncOp func;
  LayoutCache layouts;
  int blocks;
  const Target *target = nullptr;
  DenseMap<std::pair<Type, Type>, bool> memoryIsBest; ///< of two layouts within warps
};

struct LowerConversions : sectile::passes::impl::LowerConversionsPassBase<LowerConversions> {
  void runOnOperation() override { ConversionLowering(getOperation()).run(); }
};

} // namespace
