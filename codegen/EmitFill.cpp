// SPDX-License-Identifier: Apache-2.0
/// \file Elements outside a box: most threads hold none and take one branch around the work.
#include "codegen/EmitContext.h"

namespace sectile::codegen {

namespace {
constexpr int fewRegisters = 4; ///< up to here selects cost no more than the branch
}

llvm::Value *EmitContext::boundInTile(mlir::Value bound, std::int32_t length) {
  llvm::Value *v = scalar(bound);
  if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(v))
    return i32(std::clamp<std::int64_t>(known->getSExtValue(), 0, length));
  llvm::Type *type = indexFacts.of(bound).bits < 32 ? b.getInt32Ty() : b.getInt64Ty();
  v = b.CreateTrunc(v, type);
  v = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, llvm::ConstantInt::get(type, 0));
  v = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, llvm::ConstantInt::get(type, std::uint64_t(length)));
  return b.CreateTrunc(v, b.getInt32Ty());
}

EmitContext::AxisBound EmitContext::axisBound(const Geometry &g, int axis, mlir::Value lo, mlir::Value hi) {
  std::int32_t length = g.layout.dim(axis);
  AxisBound bound{axis, boundInTile(lo, length), boundInTile(hi, length)};
  // The same for all registers, which then compare with constants and need no coordinates of their own.
  auto relative = [&](llvm::Value *v, std::int32_t always) {
    auto *known = llvm::dyn_cast<llvm::ConstantInt>(v);
    return known && known->getSExtValue() == always ? nullptr : b.CreateSub(v, g.thread[size_t(axis)]);
  };
  if (g.disjoint[size_t(axis)]) {
    bound.lo = relative(bound.lo, 0);
    bound.hi = relative(bound.hi, length);
  }
  return bound;
}

llvm::Value *EmitContext::isFromLow(const Geometry &g, int reg, const AxisBound &bound) {
  if (!bound.lo)
    return b.getTrue();
  bool isRelative = g.disjoint[size_t(bound.axis)];
  return b.CreateICmpSGE(isRelative ? i32(g.regs[size_t(reg)][bound.axis]) : coordinate(g, reg, bound.axis),
                         bound.lo);
}

llvm::Value *EmitContext::isBelowHigh(const Geometry &g, int reg, const AxisBound &bound) {
  if (!bound.hi)
    return b.getTrue();
  bool isRelative = g.disjoint[size_t(bound.axis)];
  return b.CreateICmpSLT(isRelative ? i32(g.regs[size_t(reg)][bound.axis]) : coordinate(g, reg, bound.axis),
                         bound.hi);
}

llvm::Value *EmitContext::isInside(const Geometry &g, int reg, llvm::ArrayRef<AxisBound> bounds) {
  llvm::Value *inside = b.getTrue();
  for (const AxisBound &bound : bounds)
    inside = b.CreateAnd(inside, b.CreateAnd(isFromLow(g, reg, bound), isBelowHigh(g, reg, bound)));
  return inside;
}

llvm::Value *EmitContext::allInside(const Geometry &g, llvm::ArrayRef<AxisBound> bounds) {
  llvm::Value *all = b.getTrue();
  for (const AxisBound &bound : bounds) {
    const int axis = bound.axis;
    int first = 0, last = 0; // registers of the smallest and the greatest coordinate
    for (int r = 0; r < int(g.regs.size()); ++r) {
      first = g.regs[size_t(r)][axis] < g.regs[size_t(first)][axis] ? r : first;
      last = g.regs[size_t(r)][axis] > g.regs[size_t(last)][axis] ? r : last;
    }
    if (g.disjoint[size_t(axis)]) {
      all = b.CreateAnd(all, b.CreateAnd(isFromLow(g, first, bound), isBelowHigh(g, last, bound)));
    } else {
      all = b.CreateAnd(all, b.CreateICmpSLE(bound.lo, i32(0)));
      all = b.CreateAnd(all, b.CreateICmpSGE(bound.hi, i32(g.layout.dim(axis))));
    }
  }
  return all;
}

llvm::Value *EmitContext::overlaps(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds) {
  llvm::Value *result = b.getTrue();
  for (const AxisBound &bound : bounds)
    result = b.CreateAnd(
        result, b.CreateAnd(isFromLow(g, vector.back(), bound), isBelowHigh(g, vector.front(), bound)));
  return result;
}

llvm::Value *EmitContext::isWhole(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds) {
  return b.CreateAnd(isInside(g, vector.front(), bounds), isInside(g, vector.back(), bounds));
}

llvm::Value *EmitContext::isCut(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds) {
  return b.CreateAnd(overlaps(g, vector, bounds), b.CreateNot(isWhole(g, vector, bounds)));
}

bool EmitContext::fewHaveOutside(const Layout &layout, llvm::ArrayRef<AxisBound> bounds) {
  constexpr int manyRegisters = 16;
  return layout.numRegs() >= manyRegisters &&
         llvm::all_of(bounds, [&](const AxisBound &bound) { return layout.reps()[bound.axis] == 1; });
}

std::optional<tgpu::VectorPlan> EmitContext::foldedFill(tgpu::ReduceOp op) {
  using tileir::ReduceKind;
  auto fill = op.getX().getDefiningOp<tgpu::FillOutsideOp>();
  auto layout = tgpu::layoutOf(op.getX().getType());
  if (!fill || !layout || op.getPositions())
    return std::nullopt;
  // Folding the constant with itself must give the constant.
  auto is = [&](double value) {
    if (auto f = llvm::dyn_cast<mlir::FloatAttr>(fill.getFill()))
      return f.getValue().isExactlyValue(value);
    return llvm::cast<mlir::IntegerAttr>(fill.getFill()).getValue() == llvm::APInt(
               llvm::cast<mlir::IntegerAttr>(fill.getFill()).getValue().getBitWidth(), std::uint64_t(value));
  };
  if ((op.getKind() == ReduceKind::k_sum && !is(0)) || (op.getKind() == ReduceKind::k_prod && !is(1)))
    return std::nullopt;
  tgpu::VectorPlan plan(*layout, int(fill.getAxes().back()),
                        tgpu::widestAccess / std::int64_t(byteSize(dtype(op.getX().getType()))) * 2);
  return plan.width() >= 4 ? std::optional(plan) : std::nullopt;
}

Regs EmitContext::fillCutVectors(const Geometry &g, const tgpu::VectorPlan &plan, llvm::ArrayRef<AxisBound> bounds,
                                 Regs x, llvm::Value *fill) {
  llvm::SmallVector<std::pair<llvm::SmallVector<int>, llvm::Value *>> vectors; ///< registers, is cut
  llvm::Value *any = b.getFalse();
  for (int r = 0; r < int(x.size()); ++r)
    if (plan.startsVector(r)) {
      llvm::SmallVector<int> group = plan.vector(r);
      llvm::Value *cut = isCut(g, group, bounds);
      any = b.CreateOr(any, cut);
      vectors.push_back({group, cut});
    }
  Regs before = x;
  llvm::BasicBlock *from = b.GetInsertBlock(), *some = newBlock("edge"), *after = newBlock("inside");
  b.CreateCondBr(any, some, after);
  b.SetInsertPoint(some);
  for (auto &[group, cut] : vectors) {
    llvm::BasicBlock *around = b.GetInsertBlock(), *inCut = newBlock("cut"), *next = newBlock("vector");
    b.CreateCondBr(cut, inCut, next);
    b.SetInsertPoint(inCut);
    Regs single;
    for (int reg : group)
      single.push_back(b.CreateSelect(isInside(g, reg, bounds), x[size_t(reg)], fill));
    b.CreateBr(next);
    b.SetInsertPoint(next);
    for (auto [k, reg] : llvm::enumerate(group))
      x[size_t(reg)] = joined(x[size_t(reg)], around, single[k], inCut);
  }
  llvm::BasicBlock *end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  for (auto [v, kept] : llvm::zip_equal(x, before))
    v = joined(kept, from, v, end);
  return x;
}

mlir::LogicalResult EmitContext::emitFillOutside(tgpu::FillOutsideOp op) {
  auto layout = tgpu::layoutOf(op.getX().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  bool isFolded = llvm::all_of(op->getUsers(), [&](mlir::Operation *user) {
    auto reduce = llvm::dyn_cast<tgpu::ReduceOp>(user);
    return reduce && foldedFill(reduce);
  });
  if (isFolded)
    return mlir::success();
  const Geometry &g = geometry(*layout);
  DType t = dtype(op.getX().getType());
  llvm::Value *fill = constantOf(op.getFill(), t);
  Regs x = regs(op.getX());
  llvm::SmallVector<AxisBound> bounds;
  for (auto [k, a] : llvm::enumerate(op.getAxes()))
    bounds.push_back(axisBound(g, int(a), op.getLo()[k], op.getHi()[k]));

  if (int(x.size()) <= fewRegisters) {
    for (auto [r, v] : llvm::enumerate(x))
      v = b.CreateSelect(isInside(g, int(r), bounds), v, fill);
    set(op.getResult(), std::move(x));
    return mlir::success();
  }
  // Most threads have nothing outside; most of the others vectors that are outside as a whole.
  tgpu::VectorPlan plan(*layout, int(op.getAxes().back()), tgpu::widestAccess / std::int64_t(byteSize(t)));
  llvm::BasicBlock *before = b.GetInsertBlock(), *edge = newBlock("edge"), *after = newBlock("inside");
  b.CreateCondBr(allInside(g, bounds), after, edge);
  b.SetInsertPoint(edge);
  Regs result = plan.width() > 1 ? fillCutVectors(g, plan, bounds, x, fill) : x;
  for (int r = 0; r < int(x.size()); ++r)
    if (plan.startsVector(r)) {
      llvm::SmallVector<int> group = plan.vector(r);
      llvm::Value *some = overlaps(g, group, bounds);
      for (int reg : group)
        result[size_t(reg)] = b.CreateSelect(some, result[size_t(reg)], fill);
    }
  llvm::BasicBlock *end = b.GetInsertBlock();
  llvm::BranchInst *leave = b.CreateBr(after);
  // What goes on to a product from registers meets in pairs of 16 bits, as it is: alone each would be taken out of its register and
  // put back. What goes to shared memory is taken apart anyway.
  const bool toProduct = llvm::any_of(op.getResult().getUsers(), [](mlir::Operation *user) { return llvm::isa<tgpu::WgmmaOp>(user); });
  const bool inPairs = toProduct && x.size() % 2 == 0 && x[0]->getType()->getPrimitiveSizeInBits() == 16;
  auto words = [&](const Regs &all, llvm::Instruction *where) {
    b.SetInsertPoint(where);
    Regs r;
    for (size_t k = 0; k < all.size(); k += 2)
      r.push_back(b.CreateBitCast(pair(all[k], all[k + 1]), b.getInt32Ty()));
    return r;
  };
  if (inPairs) {
    const Regs kept = words(x, before->getTerminator()), filled = words(result, leave);
    b.SetInsertPoint(after);
    auto *two = llvm::FixedVectorType::get(x[0]->getType(), 2);
    Regs met;
    for (auto [k, f] : llvm::zip_equal(kept, filled))
      met.push_back(joined(k, before, f, end));
    for (size_t r = 0; r < result.size(); ++r)
      result[r] = b.CreateExtractElement(b.CreateBitCast(met[r / 2], two), std::uint64_t(r % 2));
  } else {
    b.SetInsertPoint(after);
    for (auto [v, kept] : llvm::zip_equal(result, x))
      v = joined(kept, before, v, end);
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
