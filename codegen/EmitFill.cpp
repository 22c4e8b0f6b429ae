// SPDX-License-Identifier: Apache-2.0
/// \file Elements outside a box: most threads hold none and take one branch around the work.
#include "codegen/EmitContext.h"

namespace sectile::codegen {

namespace {
constexpr int fewRegisters = 4; ///< up to here selects cost no more than the branch
}

llvm::Value *EmitContext::boundInTile(mlir::Value v, std::int32_t length) {
  llvm::Value *bound = scalar(v);
  if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(bound))
    return i32(std::clamp<std::int64_t>(known->getSExtValue(), 0, length));
  bound = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bound, i64(0));
  bound = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, i64(length));
  return b.CreateTrunc(bound, b.getInt32Ty());
}

mlir::LogicalResult EmitContext::emitFillOutside(tgpu::FillOutsideOp op) {
  auto layout = tgpu::layoutOf(op.getX().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  const Geometry &g = geometry(*layout);
  DType t = dtype(op.getX().getType());
  llvm::Value *fill = constantOf(op.getFill(), t);
  Regs x = regs(op.getX());

  struct Bound {
    int axis;
    llvm::Value *lo, *hi; ///< i32
  };
  llvm::SmallVector<Bound> bounds;
  llvm::Value *allInside = b.getTrue();
  for (auto [k, a] : llvm::enumerate(op.getAxes())) {
    int axis = int(a);
    std::int32_t length = layout->dim(axis), first = length, last = 0;
    Bound bound{axis, boundInTile(op.getLo()[k], length), boundInTile(op.getHi()[k], length)};
    bounds.push_back(bound);
    for (const Coords &c : g.regs) {
      first = std::min(first, c[axis]);
      last = std::max(last, c[axis]);
    }
    llvm::Value *low = g.thread[size_t(axis)], *high = low;
    if (g.disjoint[size_t(axis)]) {
      low = b.CreateAdd(low, i32(first));
      high = b.CreateAdd(high, i32(last));
    } else {
      low = i32(0);
      high = i32(length - 1);
    }
    allInside = b.CreateAnd(allInside, b.CreateICmpSGE(low, bound.lo));
    allInside = b.CreateAnd(allInside, b.CreateICmpSLT(high, bound.hi));
  }

  auto filled = [&] {
    std::map<std::pair<int, std::int32_t>, llvm::Value *> known;
    Regs result;
    for (auto [r, v] : llvm::enumerate(x)) {
      llvm::Value *inside = b.getTrue();
      for (auto [k, bound] : llvm::enumerate(bounds)) {
        llvm::Value *&one = known[{int(k), g.regs[r][bound.axis]}];
        if (!one) {
          llvm::Value *c = coordinate(g, int(r), bound.axis);
          one = b.CreateAnd(b.CreateICmpSGE(c, bound.lo), b.CreateICmpSLT(c, bound.hi));
        }
        inside = b.CreateAnd(inside, one);
      }
      result.push_back(b.CreateSelect(inside, v, fill));
    }
    return result;
  };
  if (int(x.size()) <= fewRegisters) {
    set(op.getResult(), filled());
    return mlir::success();
  }
  llvm::BasicBlock *before = b.GetInsertBlock(), *edge = newBlock("edge"), *after = newBlock("inside");
  b.CreateCondBr(allInside, after, edge);
  b.SetInsertPoint(edge);
  Regs changed = filled();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  Regs result;
  for (auto [kept, v] : llvm::zip_equal(x, changed)) {
    llvm::PHINode *phi = b.CreatePHI(v->getType(), 2);
    phi->addIncoming(kept, before);
    phi->addIncoming(v, edge);
    result.push_back(phi);
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitMisalign(tgpu::MisalignOp op) {
  View x = view(op.getX());
  std::int64_t element = std::int64_t(byteSize(dtype(op.getX().getType())));
  llvm::Value *at = b.CreatePtrToInt(x.pointer, b.getInt64Ty());
  for (auto [d, offset] : llvm::enumerate(op.getOffsets()))
    at = b.CreateAdd(at, b.CreateMul(b.CreateMul(scalar(offset), x.strides[d]), i64(element)));
  at = b.CreateAnd(at, i64(std::int64_t(op.getBytes()) - 1));
  set(op.getResult(), {b.CreateLShr(at, i64(llvm::Log2_64(std::uint64_t(element))))});
  return mlir::success();
}

} // namespace sectile::codegen
