// SPDX-License-Identifier: Apache-2.0
/// \file LowerTileToTgpu: reductions and products become tgpu ops.
///
/// Before: every tensor has a layout. After: no tile.mma, tile.reduce remains; elementwise and shape ops
/// whose layouts need only register renaming stay. A reshape that moves data between threads goes through a
/// buffer.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "llvm/ADT/TypeSwitch.h"

#include <bit>

namespace sectile::passes {
#define GEN_PASS_DEF_LOWERTILETOTGPUPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

class TileLowering {
public:
  explicit TileLowering(func::FuncOp func) : func(func), layouts(func.getContext()), b(func.getContext()) {}

  void run() {
    SmallVector<Operation *> ops;
    func.walk([&](Operation *op) {
      if (isa<ReduceOp, MmaOp, ReshapeOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      b.setInsertionPoint(op);
      llvm::TypeSwitch<Operation *>(op).Case<ReduceOp, MmaOp, ReshapeOp>([&](auto op) { lower(op); });
    }
  }

private:
  void replace(Operation *op, Value v) {
    op->getResult(0).replaceAllUsesWith(v);
    op->erase();
  }

  /// Folds the axis within warps; then, where warps split the axis, brings the parts of all warps to every
  /// warp and folds those.
  void lower(ReduceOp op) {
    Location loc = op.getLoc();
    Value x = op.getX();
    int axis = int(op.getAxis());
    ReduceKind kind = op.getKind();
    const Layout layout = layouts.of(x), folded = layout.collapse(axis);
    Type element = elementOf(x.getType());
    bool isArg = kind == ReduceKind::k_argmax || kind == ReduceKind::k_argmin;
    bool accumulates = kind == ReduceKind::k_sum || kind == ReduceKind::k_prod;
    bool widens = accumulates && isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    if (widens)
      x = CastOp::create(b, loc, withElement(x.getType(), b.getF32Type()), x);
    Value positions;
    if (isArg)
      positions = IotaOp::create(b, loc, withElement(x.getType(), b.getIndexType()), axis);

    auto fold = [&](const Layout &from) {
      Layout to = tgpu::reducedLayout(from, axis);
      SmallVector<int64_t> shape(shapeOf(x.getType()));
      shape[axis] = to.dim(axis);
      Type type = layouts.with(RankedTensorType::get(shape, elementOf(x.getType())), to);
      Type positionType = isArg ? withElement(type, b.getIndexType()) : Type();
      auto reduce = tgpu::ReduceOp::create(b, loc, type, positionType, kind, x, positions, axis);
      x = reduce.getResult();
      positions = reduce.getResultPositions();
    };
    fold(layout);
    if (int parts = int(shapeOf(x.getType())[axis]); parts > 1) {
      // Every thread that holds the result gets all parts together with its neighbours: each lane that would
      // hold one more copy takes a part of its own, registers take the rest.
      std::vector<Coords> regs, lanes = folded.lane();
      int part = 1;
      for (Coords &lane : lanes)
        if (part < parts && lane.isZero()) {
          lane[axis] = part;
          part *= 2;
        }
      for (; part < parts; part *= 2) {
        regs.emplace_back();
        regs.back()[axis] = part;
      }
      regs.insert(regs.end(), folded.reg().begin(), folded.reg().end());
      Coords core = folded.core();
      core[axis] = parts;
      Layout together(folded.rank(), core, folded.reps(), regs, lanes, folded.warp());
      auto gather = [&](Value v) -> Value {
        return v ? tgpu::ConvertLayoutOp::create(b, loc, layouts.with(v.getType(), together), v) : Value();
      };
      x = gather(x);
      positions = gather(positions);
      fold(together);
    }
    Value result = isArg ? positions : x;
    if (widens)
      result = CastOp::create(b, loc, op.getType(), result);
    replace(op, result);
  }

  Value toBuffer(Location loc, Value v) {
    auto type = tgpu::BufferType::get(b.getContext(), shapeOf(v.getType()), elementOf(v.getType()), {});
    Value buffer = tgpu::BufferAllocOp::create(b, loc, type, IntegerAttr());
    tgpu::CopyOp::create(b, loc, v, buffer);
    return buffer;
  }

  void lower(MmaOp op) {
    Location loc = op.getLoc();
    if (auto atom = op->getAttrOfType<tgpu::AtomAttr>(atomAttr)) {
      replace(op, tgpu::MmaSyncOp::create(b, loc, op.getType(), atom, op.getA(), op.getB(), op.getAcc()));
      return;
    }
    Value a = toBuffer(loc, op.getA()), bb = toBuffer(loc, op.getB());
    replace(op, tgpu::MmaFmaOp::create(b, loc, op.getType(), a, bb, op.getAcc()));
  }

  void lower(ReshapeOp op) {
    if (!isTile(op.getX()) || !isTile(op.getResult()))
      return;
    ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
    auto kept = reshapeLayout(layouts.of(op.getX()), from, to);
    if (kept && *kept == layouts.of(op.getResult()))
      return;
    // Row-major order is the same in both shapes.
    Location loc = op.getLoc();
    Value buffer = toBuffer(loc, op.getX());
    auto type = tgpu::BufferType::get(b.getContext(), to, elementOf(op.getType()), {});
    buffer = tgpu::BufferViewOp::create(b, loc, type, buffer);
    replace(op, tgpu::CopyOutOp::create(b, loc, op.getType(), buffer));
  }

  func::FuncOp func;
  LayoutCache layouts;
  OpBuilder b;
};

struct LowerTileToTgpu : sectile::passes::impl::LowerTileToTgpuPassBase<LowerTileToTgpu> {
  void runOnOperation() override { TileLowering(getOperation()).run(); }
};

} // namespace
