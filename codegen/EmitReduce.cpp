// SPDX-License-Identifier: Apache-2.0
/// \file Reductions inside a warp: a tree over the registers of a thread, then a butterfly over the lanes.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/MDBuilder.h"

#include <functional>

namespace sectile::codegen {

/// The value of the lane whose number differs in one bit, for any element type.
llvm::Value *EmitContext::shuffleXor(llvm::Value *v, int laneMask) {
  llvm::Type *type = v->getType();
  unsigned bits = unsigned(type->getPrimitiveSizeInBits());
  auto shuffle32 = [&](llvm::Value *word) {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32,
                             {i32(-1), word, i32(laneMask), i32(31)});
  };
  llvm::Value *asInt = type->isIntegerTy() ? v : b.CreateBitCast(v, b.getIntNTy(bits));
  llvm::Value *moved;
  if (bits == 64) {
    llvm::Value *low = shuffle32(b.CreateTrunc(asInt, b.getInt32Ty()));
    llvm::Value *high = shuffle32(b.CreateTrunc(b.CreateLShr(asInt, 32), b.getInt32Ty()));
    moved =
        b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  } else {
    moved = b.CreateTrunc(shuffle32(b.CreateZExt(asInt, b.getInt32Ty())), asInt->getType());
  }
  return type->isIntegerTy() ? moved : b.CreateBitCast(moved, type);
}

mlir::LogicalResult EmitContext::emitReduce(tgpu::ReduceOp op) {
  using tileir::BinaryFn;
  using tileir::ReduceKind;
  auto layout = tgpu::layoutOf(op.getX().getType()), resultLayout = tgpu::layoutOf(op.getResult().getType());
  if (!layout || !resultLayout)
    return bug(op, "a tile has no layout");
  int axis = int(op.getAxis());
  ReduceKind kind = op.getKind();
  DType t = dtype(op.getX().getType());
  bool withPositions = kind == ReduceKind::k_argmax || kind == ReduceKind::k_argmin;
  bool adds = kind == ReduceKind::k_sum || kind == ReduceKind::k_prod;

  // A lane bit on the axis must be there for the axis alone and for elements that no register has.
  std::uint32_t lanes = layout->lanesAlong(axis);
  for (int bit = 0; bit < laneBits; ++bit)
    for (int d = 0; d < layout->rank(); ++d)
      if ((lanes >> bit & 1) && d != axis && layout->lane()[size_t(bit)][d] != 0)
        return bug(op, "a lane bit moves along two axes: " + layout->toString());
  if (lanes & layout->freeLanes())
    return bug(op, "lanes hold copies along the axis: " + layout->toString());

  // Which registers fall into which register of the result.
  Layout collapsed = layout->collapse(axis);
  if (collapsed.numRegs() != resultLayout->numRegs())
    return bug(op, "the result has another number of registers than " + collapsed.toString());
  struct Entry {
    llvm::Value *value, *position;
  };
  // Small floats add up in f32.
  bool widen = adds && isFloat(t) && byteSize(t) <= 2;
  DType work = widen ? DType::f32 : t;
  // What is filled outside of bounds is left out here, vector by vector.
  std::optional<tgpu::VectorPlan> vectors = foldedFill(op);
  llvm::SmallVector<AxisBound> bounds;
  llvm::Value *outside = nullptr;
  bool mayCut = false;
  Regs x, positions;
  if (vectors) {
    auto fill = op.getX().getDefiningOp<tgpu::FillOutsideOp>();
    const Geometry &g = geometry(*layout);
    for (auto [k, a] : llvm::enumerate(fill.getAxes())) {
      bounds.push_back(axisBound(g, int(a), fill.getLo()[k], fill.getHi()[k]));
      if (a == fill.getAxes().back())
        mayCut = std::min(indexFacts.divisor(fill.getLo()[k]), indexFacts.divisor(fill.getHi()[k])) < vectors->width();
    }
    llvm::Value *constant = constantOf(fill.getFill(), t);
    x = regs(fill.getX());
    outside = widen ? toF32(t, constant) : constant;
  } else {
    x = regs(op.getX());
  }
  if (withPositions)
    positions = regs(op.getPositions());

  static constexpr std::pair<ReduceKind, BinaryFn> functions[] = {
      {ReduceKind::k_sum, BinaryFn::k_add},       {ReduceKind::k_prod, BinaryFn::k_mul},
      {ReduceKind::k_max, BinaryFn::k_max},       {ReduceKind::k_min, BinaryFn::k_min},
      {ReduceKind::k_maxnum, BinaryFn::k_maxnum}, {ReduceKind::k_minnum, BinaryFn::k_minnum},
      {ReduceKind::k_any, BinaryFn::k_bitor},     {ReduceKind::k_all, BinaryFn::k_bitand}};
  auto combine = [&](Entry p, Entry q) -> Entry {
    if (!withPositions) {
      for (auto [k, fn] : functions)
        if (k == kind)
          return {binary(fn, work, p.value, q.value), nullptr};
      return {};
    }
    // q wins if it is beyond p, or equal at a smaller position. NaN is beyond everything and equal to NaN.
    bool isMax = kind == ReduceKind::k_argmax;
    llvm::Value *beyond =
        compare(isMax ? tileir::ComparePred::k_gt : tileir::ComparePred::k_lt, t, q.value, p.value);
    llvm::Value *equal = compare(tileir::ComparePred::k_eq, t, q.value, p.value);
    if (isFloat(t)) {
      llvm::Value *pNan = unary(tileir::UnaryFn::k_isnan, t, p.value),
                  *qNan = unary(tileir::UnaryFn::k_isnan, t, q.value);
      beyond = b.CreateOr(beyond, b.CreateAnd(qNan, b.CreateNot(pNan)));
      equal = b.CreateOr(equal, b.CreateAnd(qNan, pNan));
    }
    llvm::Value *earlier = b.CreateICmpSLT(q.position, p.position);
    llvm::Value *wins = b.CreateOr(beyond, b.CreateAnd(equal, earlier));
    return {b.CreateSelect(wins, q.value, p.value), b.CreateSelect(wins, q.position, p.position)};
  };

  auto tree = [&](llvm::SmallVector<Entry> list) { // neighbours first: short chains, one fixed order
    while (list.size() > 1) {
      llvm::SmallVector<Entry> half;
      for (size_t k = 0; k + 1 < list.size(); k += 2)
        half.push_back(combine(list[k], list[k + 1]));
      if (list.size() % 2)
        half.push_back(list.back());
      list = std::move(half);
    }
    return list.front();
  };
  // What the thread has of each register of the result; `whole`: of the vectors that it is true of alone.
  using Vector = llvm::SmallVector<int>;
  bool collapses = true;
  auto byResult = [&](llvm::ArrayRef<int> vector, llvm::function_ref<llvm::Value *(int)> valueOf) {
    std::map<int, llvm::SmallVector<Entry>> together; // by register of the result
    for (int reg : vector) {
      if (!ownsRegister(*layout, reg))
        continue;
      std::optional<int> to = regOfBroadcast(collapsed, *layout, reg);
      collapses &= to.has_value();
      llvm::Value *v = valueOf(reg);
      together[to.value_or(0)].push_back({widen ? toF32(t, v) : v, withPositions ? positions[size_t(reg)] : nullptr});
    }
    return together;
  };
  auto ofThread = [&](llvm::function_ref<llvm::Value *(const Vector &)> whole) {
    std::vector<llvm::SmallVector<Entry>> parts(size_t(collapsed.numRegs()));
    for (int r = 0; r < layout->numRegs(); ++r) {
      if (vectors && !vectors->startsVector(r))
        continue;
      const Vector vector = vectors ? vectors->vector(r) : Vector{r};
      for (auto &[to, list] : byResult(vector, [&](int reg) { return x[size_t(reg)]; })) {
        Entry entry = tree(std::move(list));
        if (whole)
          entry.value = b.CreateSelect(whole(vector), entry.value, outside);
        parts[size_t(to)].push_back(entry);
      }
    }
    llvm::SmallVector<Entry> all;
    for (llvm::SmallVector<Entry> &list : parts)
      all.push_back(tree(std::move(list)));
    return all;
  };
  // Vectors that a bound cuts, in few threads, come behind the others, so that no tile meets a filled one.
  auto addCut = [&](llvm::SmallVector<Entry> &all) {
    const Geometry &g = geometry(*layout);
    llvm::Value *fill = constantOf(op.getX().getDefiningOp<tgpu::FillOutsideOp>().getFill(), t), *any = b.getFalse();
    llvm::SmallVector<std::pair<Vector, llvm::Value *>> cut;
    for (int r = 0; r < layout->numRegs(); ++r)
      if (vectors->startsVector(r) && ownsRegister(*layout, r)) {
        const Vector vector = vectors->vector(r);
        cut.push_back({vector, isCut(g, vector, bounds)});
        any = b.CreateOr(any, cut.back().second);
      }
    auto meet = [&](llvm::ArrayRef<Entry> before, llvm::BasicBlock *from, llvm::BasicBlock *next) {
      llvm::BasicBlock *edge = b.GetInsertBlock();
      b.CreateBr(next);
      b.SetInsertPoint(next);
      for (auto [v, was] : llvm::zip_equal(all, before))
        v.value = joined(was.value, from, v.value, edge);
    };
    const llvm::SmallVector<Entry> before = all;
    llvm::BasicBlock *from = b.GetInsertBlock(), *some = newBlock("edge"), *after = newBlock("reduced");
    b.CreateCondBr(any, some, after, llvm::MDBuilder(ctx).createUnlikelyBranchWeights());
    b.SetInsertPoint(some);
    for (auto &[vector, isCut] : cut) {
      const llvm::SmallVector<Entry> without = all;
      llvm::BasicBlock *around = b.GetInsertBlock(), *inCut = newBlock("cut"), *next = newBlock("vector");
      b.CreateCondBr(isCut, inCut, next);
      b.SetInsertPoint(inCut);
      for (auto &[to, list] :
           byResult(vector, [&](int reg) { return b.CreateSelect(isInside(g, reg, bounds), x[size_t(reg)], fill); }))
        all[size_t(to)] = combine(all[size_t(to)], tree(std::move(list)));
      meet(without, around, next);
    }
    meet(before, from, after);
  };
  llvm::SmallVector<Entry> own;
  if (!vectors) {
    own = ofThread(nullptr);
  } else if (!mayCut) {
    own = ofThread([&](const Vector &vector) { return overlaps(geometry(*layout), vector, bounds); });
  } else {
    const Geometry &g = geometry(*layout);
    auto withoutOutside = [&] {
      llvm::SmallVector<Entry> all = ofThread([&](const Vector &vector) { return isWhole(g, vector, bounds); });
      addCut(all);
      return all;
    };
    if (!fewHaveOutside(*layout, bounds)) {
      own = withoutOutside();
    } else { // most threads have nothing outside
      llvm::BasicBlock *whole = newBlock("whole"), *edge = newBlock("edge"), *after = newBlock("reduced");
      b.CreateCondBr(allInside(g, bounds), whole, edge);
      b.SetInsertPoint(whole);
      llvm::SmallVector<Entry> plain = ofThread(nullptr);
      whole = b.GetInsertBlock();
      b.CreateBr(after);
      b.SetInsertPoint(edge);
      llvm::SmallVector<Entry> filled = withoutOutside();
      edge = b.GetInsertBlock();
      b.CreateBr(after);
      b.SetInsertPoint(after);
      for (auto [p, q] : llvm::zip_equal(plain, filled))
        own.push_back({joined(p.value, whole, q.value, edge), nullptr});
    }
  }
  if (!collapses)
    return bug(op, "registers do not collapse: " + layout->toString());

  Regs result, resultPositions;
  for (Entry all : own) {
    for (int bit = 0; bit < laneBits; ++bit)
      if (lanes >> bit & 1)
        all = combine(all, {shuffleXor(all.value, 1 << bit),
                            withPositions ? shuffleXor(all.position, 1 << bit) : nullptr});
    result.push_back(widen ? fromF32(t, all.value) : all.value);
    resultPositions.push_back(all.position);
  }
  set(op.getResult(), std::move(result));
  if (withPositions)
    set(op.getResultPositions(), std::move(resultPositions));
  return mlir::success();
}

} // namespace sectile::codegen
