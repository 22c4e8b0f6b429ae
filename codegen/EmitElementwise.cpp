// SPDX-License-Identifier: Apache-2.0
/// \file Elementwise ops, one register at a time. The meaning is that of ir/base/Scalar.h.
#include "codegen/MathGroups.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {
namespace {
using llvm::Intrinsic::ID;
namespace intr = llvm::Intrinsic;
} // namespace

// --- ops
// ----------------------------------------------------------------------------------------------------------

mlir::LogicalResult EmitContext::emitUnary(tileir::UnaryOp op) {
  DType t = dtype(op.getX().getType());
  if (op.getFn() == tileir::UnaryFn::k_bits) {
    const DType to = dtype(op.getResult().getType());
    Regs same;
    for (llvm::Value *x : Regs(regs(op.getX()))) {
      llvm::Value *v = b.CreateBitCast(x, elementLlvm(to));
      same.push_back(usedBits(to) < 8 ? b.CreateAnd(v, b.getInt8(std::uint8_t((1 << usedBits(to)) - 1))) : v);
    }
    set(op.getResult(), std::move(same));
    return mlir::success();
  }
  // Branches keep what the elements of a tile need beside each other: of larger ones there are no registers for that.
  constexpr size_t several = 4, mostTogether = 64;
  if (const size_t count = regs(op.getX()).size(); op.getFn() == tileir::UnaryFn::k_tanh && t == DType::f32 && count >= several && count <= mostTogether) {
    const Regs x(regs(op.getX()));
    set(op.getResult(), tanhOf(b, fn, x));
    return mlir::success();
  }
  Regs result;
  for (llvm::Value *x : Regs(regs(op.getX()))) {
    llvm::Value *r = unary(op.getFn(), t, x);
    if (!r)
      return bug(op, "function not defined on " + llvm::StringRef(name(t)));
    result.push_back(r);
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitBinary(tileir::BinaryOp op) {
  DType t = dtype(op.getA().getType());
  Regs x = regs(op.getA()), y = regs(op.getB()), result;
  if (op.getFn() == tileir::BinaryFn::k_div && isFloat(t) && t != DType::f64) {
    // What is only needed in 16 bits is kept in 16 bits from the start: divisions have branches, and live through them.
    auto narrow = op->hasOneUse() ? llvm::dyn_cast<tileir::CastOp>(*op->user_begin()) : tileir::CastOp();
    const DType to = narrow && narrow->getBlock() == op->getBlock() ? dtype(narrow.getType()) : t;
    if (t == DType::f32 && (to == DType::bf16 || to == DType::f16))
      set(narrow.getResult(), divideF32(x, y, to));
    else
      set(op.getResult(), divideFloats(t, x, y));
    return mlir::success();
  }
  // Sums of coordinates that fit are made, and so compared, in 32 bits.
  const bool fits = t == DType::index && op.getFn() == tileir::BinaryFn::k_add && x.size() > 1 &&
                    indexFacts.of(op.getResult()).nonNegative && indexFacts.of(op.getResult()).bits <= 32 &&
                    indexFacts.nonNegative(op.getA()) && indexFacts.nonNegative(op.getB());
  if (fits) {
    const bool isSigned = indexFacts.of(op.getResult()).bits < 32; // comparisons with signed numbers are in 32 bits, too
    for (auto [a, c] : llvm::zip_equal(x, y))
      result.push_back(b.CreateZExt(b.CreateAdd(b.CreateTrunc(a, b.getInt32Ty()), b.CreateTrunc(c, b.getInt32Ty()), "", /*HasNUW=*/true, /*HasNSW=*/isSigned),
                                    b.getInt64Ty(), "", /*IsNonNeg=*/isSigned));
    set(op.getResult(), std::move(result));
    return mlir::success();
  }
  if (x.size() % 2 == 0 && worksInPairs(op.getFn(), t)) {
    for (size_t r = 0; r < x.size(); r += 2) {
      llvm::Value *both = binary(op.getFn(), t, pair(x[r], x[r + 1]), pair(y[r], y[r + 1]));
      for (std::uint64_t k : {0, 1})
        result.push_back(b.CreateExtractElement(both, k));
    }
    set(op.getResult(), std::move(result));
    return mlir::success();
  }
  for (auto [a, c] : llvm::zip_equal(x, y)) {
    llvm::Value *r = binary(op.getFn(), t, a, c);
    if (!r)
      return bug(op, "function not defined on " + llvm::StringRef(name(t)));
    result.push_back(r);
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitCompare(tileir::CompareOp op) {
  DType t = dtype(op.getA().getType());
  Regs x = regs(op.getA()), y = regs(op.getB()), result;
  for (auto [a, c] : llvm::zip_equal(x, y))
    result.push_back(compare(op.getPred(), t, a, c));
  set(op.getResult(), std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitSelect(tileir::SelectOp op) {
  Regs cond = regs(op.getCond()), x = regs(op.getA()), y = regs(op.getB()), result;
  for (size_t r = 0; r < x.size(); ++r)
    result.push_back(b.CreateSelect(cond[cond.size() == 1 ? 0 : r], x[r], y[r]));
  set(op.getResult(), std::move(result));
  return mlir::success();
}

void EmitContext::emitFma(tileir::FmaOp op) {
  Regs x = regs(op.getA()), y = regs(op.getB()), z = regs(op.getC()), result;
  for (size_t r = 0; r < x.size(); ++r)
    result.push_back(b.CreateIntrinsic(intr::fma, {x[r]->getType()}, {x[r], y[r], z[r]}));
  set(op.getResult(), std::move(result));
}

void EmitContext::emitWarpAny(tgpu::WarpAnyOp op) {
  llvm::Value *any = b.getFalse();
  for (llvm::Value *v : regs(op.getMask()))
    any = b.CreateOr(any, v);
  set(op.getResult(), {b.CreateIntrinsic(intr::nvvm_vote_any_sync, {i32(-1), any})});
}

/// One instruction does two neighbours, each rounded as alone.
bool EmitContext::worksInPairs(tileir::BinaryFn fn, DType t) const {
  using tileir::BinaryFn;
  if (t != DType::f16 && !(t == DType::bf16 && target.major >= 9))
    return false;
  return llvm::is_contained(
      {BinaryFn::k_add, BinaryFn::k_sub, BinaryFn::k_mul, BinaryFn::k_max, BinaryFn::k_min}, fn);
}

llvm::Value *EmitContext::pair(llvm::Value *low, llvm::Value *high) {
  llvm::Value *both = llvm::PoisonValue::get(llvm::FixedVectorType::get(low->getType(), 2));
  return b.CreateInsertElement(b.CreateInsertElement(both, low, std::uint64_t(0)), high, std::uint64_t(1));
}

// --- one element
// -----------------------------------------------------------------------------------------------------

llvm::Value *EmitContext::unary(tileir::UnaryFn fn, DType t, llvm::Value *x) {
  using tileir::UnaryFn;
  llvm::Type *type = x->getType();
  if (!isFloat(t)) {
    switch (fn) {
    case UnaryFn::k_neg:
      return b.CreateNeg(x);
    case UnaryFn::k_abs:
      return isSignedInt(t) ? b.CreateBinaryIntrinsic(intr::abs, x, b.getFalse()) : x;
    case UnaryFn::k_bitnot:
      return b.CreateNot(x);
    default:
      return nullptr;
    }
  }
  // Sign bit only: done on the bits, so that NaNs keep theirs.
  if (fn == UnaryFn::k_neg || fn == UnaryFn::k_abs) {
    unsigned bits = unsigned(byteSize(t) * 8);
    if (!isFp8(t))
      return fn == UnaryFn::k_neg ? b.CreateFNeg(x) : b.CreateUnaryIntrinsic(intr::fabs, x);
    llvm::APInt sign = llvm::APInt::getSignMask(bits);
    return fn == UnaryFn::k_neg ? b.CreateXor(x, llvm::ConstantInt::get(type, sign))
                                : b.CreateAnd(x, llvm::ConstantInt::get(type, ~sign));
  }
  llvm::Value *wide = isSmall(t) ? toF32(t, x) : x;
  auto narrow = [&](llvm::Value *v) { return isSmall(t) ? fromF32(t, v) : v; };
  switch (fn) {
  case UnaryFn::k_isnan:
    return b.CreateFCmpUNO(wide, wide);
  case UnaryFn::k_isinf:
    return b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(intr::fabs, wide),
                           llvm::ConstantFP::getInfinity(wide->getType()));
  case UnaryFn::k_floor:
    return narrow(b.CreateUnaryIntrinsic(intr::floor, wide));
  case UnaryFn::k_ceil:
    return narrow(b.CreateUnaryIntrinsic(intr::ceil, wide));
  case UnaryFn::k_round:
    return narrow(b.CreateUnaryIntrinsic(intr::roundeven, wide));
  case UnaryFn::k_trunc:
    return narrow(b.CreateUnaryIntrinsic(intr::trunc, wide));
  case UnaryFn::k_sqrt:
    return narrow(b.CreateUnaryIntrinsic(intr::sqrt, wide));
  default:
    break;
  }
  llvm::Value *r = mathFunction(fn, wide);
  return r ? narrow(r) : nullptr;
}

llvm::Value *EmitContext::binary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y) {
  return isFloat(t) ? floatBinary(fn, t, x, y) : integerBinary(fn, t, x, y);
}

llvm::Value *EmitContext::maximum(llvm::Value *x, llvm::Value *y, bool isMin) {
  if (!x->getType()->isDoubleTy())
    return b.CreateBinaryIntrinsic(isMin ? intr::minimum : intr::maximum, x, y);
  llvm::Value *r = maxNum(x, y, isMin);
  return b.CreateSelect(b.CreateFCmpUNO(x, y), llvm::ConstantFP::getQNaN(x->getType()), r);
}

llvm::Value *EmitContext::maxNum(llvm::Value *x, llvm::Value *y, bool isMin) {
  return b.CreateBinaryIntrinsic(isMin ? intr::minimumnum : intr::maximumnum, x, y);
}

/// All registers of an f32 or narrower division at once.
Regs EmitContext::divideFloats(DType t, Regs x, Regs y) {
  if (t == DType::f32)
    return divideF32(x, y);
  llvm::DenseMap<llvm::Value *, llvm::Value *> widened; // a register that repeats stays one
  for (Regs *list : {&x, &y})
    for (llvm::Value *&v : *list) {
      llvm::Value *&wide = widened[v];
      v = wide ? wide : wide = toF32(t, v);
    }
  Regs q = divideF32(x, y);
  for (size_t r = 0; r < q.size(); ++r)
    q[r] = fromF32(t, t == DType::bf16 ? divBf16(x[r], y[r], q[r]) : q[r]);
  return q;
}

/// The quotient of two bf16, rounded once. In f32 first; only where that rounds at bf16's subnormal positions
/// would two roundings show, so there the f32 result is rounded to odd by the sign of the remainder.
llvm::Value *EmitContext::divBf16(llvm::Value *x, llvm::Value *y, llvm::Value *q) {
  llvm::Type *f32 = b.getFloatTy();
  auto scale = [&](llvm::Value *v) { return b.CreateFMul(v, llvm::ConstantFP::get(f32, 0x1p96)); };
  llvm::Value *remainder = b.CreateIntrinsic(intr::fma, {f32}, {b.CreateFNeg(scale(q)), y, scale(x)});
  llvm::Value *bits = b.CreateBitCast(q, b.getInt32Ty());
  // |q| too small: the remainder has the sign of x.
  llvm::Value *negative = b.CreateICmpSLT(
      b.CreateXor(b.CreateBitCast(remainder, b.getInt32Ty()), b.CreateBitCast(x, b.getInt32Ty())), i32(0));
  llvm::Value *odd = b.CreateAdd(bits, b.CreateSelect(negative, i32(-1), i32(1)));
  llvm::Value *magnitude = b.CreateAnd(bits, i32(0x7fffffff));
  llvm::Value *subnormal = b.CreateICmpULT(magnitude, i32(0x00800000));
  llvm::Value *inexact = b.CreateFCmpONE(remainder, llvm::ConstantFP::get(f32, 0.0));
  llvm::Value *even = b.CreateICmpEQ(b.CreateAnd(bits, i32(1)), i32(0));
  llvm::Value *adjust = b.CreateAnd(b.CreateAnd(subnormal, inexact), even);
  return b.CreateBitCast(b.CreateSelect(adjust, odd, bits), f32);
}

llvm::Value *EmitContext::floatBinary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y) {
  using tileir::BinaryFn;
  // f16 and bf16 have sums and products of one rounding in hardware; f32 in between would round bf16's
  // subnormal products twice.
  if (!isFp8(t)) {
    switch (fn) {
    case BinaryFn::k_add:
      return b.CreateFAdd(x, y);
    case BinaryFn::k_sub:
      return b.CreateFSub(x, y);
    case BinaryFn::k_mul:
      return b.CreateFMul(x, y);
    case BinaryFn::k_max:
      return maximum(x, y, false);
    case BinaryFn::k_min:
      return maximum(x, y, true);
    case BinaryFn::k_maxnum:
      return maxNum(x, y, false);
    case BinaryFn::k_minnum:
      return maxNum(x, y, true);
    default:
      break;
    }
  }
  llvm::Value *a = isSmall(t) ? toF32(t, x) : x, *c = isSmall(t) ? toF32(t, y) : y, *r = nullptr;
  // The greater of two fp8 is one of them: rounding it anew would make infinity finite. NaN is 0x7f in both
  // formats.
  auto chosen = [&](llvm::Value *wide) {
    llvm::Type *bits = b.getInt32Ty();
    llvm::Value *isFirst = b.CreateICmpEQ(b.CreateBitCast(wide, bits), b.CreateBitCast(a, bits));
    return b.CreateSelect(b.CreateFCmpUNO(wide, wide), b.getInt8(0x7f), b.CreateSelect(isFirst, x, y));
  };
  switch (fn) {
  case BinaryFn::k_add:
    r = b.CreateFAdd(a, c);
    break;
  case BinaryFn::k_sub:
    r = b.CreateFSub(a, c);
    break;
  case BinaryFn::k_mul:
    r = b.CreateFMul(a, c);
    break;
  case BinaryFn::k_max:
    return chosen(maximum(a, c, false));
  case BinaryFn::k_min:
    return chosen(maximum(a, c, true));
  case BinaryFn::k_maxnum:
    return chosen(maxNum(a, c, false));
  case BinaryFn::k_minnum:
    return chosen(maxNum(a, c, true));
  case BinaryFn::k_div:
    return t == DType::f64 ? b.CreateFDiv(x, y) : divideFloats(t, {x}, {y}).front();
  case BinaryFn::k_rem:
    r = floatRemainder(a, c);
    break;
  case BinaryFn::k_pow:
    r = power(a, c);
    break;
  default:
    return nullptr;
  }
  return isSmall(t) ? fromF32(t, r) : r;
}

llvm::Value *EmitContext::integerBinary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y) {
  using tileir::BinaryFn;
  llvm::Type *type = x->getType();
  if (t == DType::boolean) {
    switch (fn) {
    case BinaryFn::k_add:
    case BinaryFn::k_max:
    case BinaryFn::k_maxnum:
    case BinaryFn::k_bitor:
      return b.CreateOr(x, y);
    case BinaryFn::k_mul:
    case BinaryFn::k_min:
    case BinaryFn::k_minnum:
    case BinaryFn::k_bitand:
      return b.CreateAnd(x, y);
    case BinaryFn::k_bitxor:
      return b.CreateXor(x, y);
    default:
      return nullptr;
    }
  }
  bool isSigned = isSignedInt(t);
  llvm::Value *zero = llvm::ConstantInt::get(type, 0), *one = llvm::ConstantInt::get(type, 1);
  llvm::Value *minusOne = llvm::ConstantInt::getAllOnesValue(type);
  auto pick = [&](ID s, ID u) { return b.CreateBinaryIntrinsic(isSigned ? s : u, x, y); };
  switch (fn) {
  case BinaryFn::k_add:
    return b.CreateAdd(x, y);
  case BinaryFn::k_sub:
    return b.CreateSub(x, y);
  case BinaryFn::k_mul:
    return b.CreateMul(x, y);
  case BinaryFn::k_max:
  case BinaryFn::k_maxnum:
    return pick(intr::smax, intr::umax);
  case BinaryFn::k_min:
  case BinaryFn::k_minnum:
    return pick(intr::smin, intr::umin);
  case BinaryFn::k_bitand:
    return b.CreateAnd(x, y);
  case BinaryFn::k_bitor:
    return b.CreateOr(x, y);
  case BinaryFn::k_bitxor:
    return b.CreateXor(x, y);
  case BinaryFn::k_shl:
  case BinaryFn::k_shr: {
    unsigned width = type->getIntegerBitWidth();
    llvm::Value *inside = b.CreateICmpULT(y, llvm::ConstantInt::get(type, width));
    // A mask, not a selection: LLVM's back end turns `y < 64 ? x << y : 0` into a shift by the low half of y
    // alone.
    llvm::Value *count = b.CreateAnd(y, llvm::ConstantInt::get(type, width - 1));
    if (fn == BinaryFn::k_shl)
      return b.CreateSelect(inside, b.CreateShl(x, count), zero);
    if (!isSigned)
      return b.CreateSelect(inside, b.CreateLShr(x, count), zero);
    return b.CreateAShr(x, b.CreateSelect(inside, y, llvm::ConstantInt::get(type, width - 1)));
  }
  case BinaryFn::k_div:
  case BinaryFn::k_rem:
  case BinaryFn::k_floordiv:
  case BinaryFn::k_floormod:
    break;
  default:
    return nullptr;
  }
  // x / 0 = 0, x rem 0 = x, x / -1 = -x (wrapping), x rem -1 = 0; else the machine's division, which
  // truncates.
  llvm::Value *byZero = b.CreateICmpEQ(y, zero);
  llvm::Value *byMinusOne = isSigned ? b.CreateICmpEQ(y, minusOne) : b.getFalse();
  llvm::Value *safe = b.CreateSelect(b.CreateOr(byZero, byMinusOne), one, y);
  llvm::Value *quotient = isSigned ? b.CreateSDiv(x, safe) : b.CreateUDiv(x, safe);
  llvm::Value *rest = b.CreateSub(x, b.CreateMul(quotient, safe));
  quotient = b.CreateSelect(byZero, zero, b.CreateSelect(byMinusOne, b.CreateNeg(x), quotient));
  rest = b.CreateSelect(byZero, x, rest); // with divisor 1 the rest is 0 already
  if (fn == BinaryFn::k_div)
    return quotient;
  if (fn == BinaryFn::k_rem)
    return rest;
  if (!isSigned)
    return fn == BinaryFn::k_floordiv ? quotient : rest;
  llvm::Value *down = b.CreateAnd(b.CreateAnd(b.CreateNot(byZero), b.CreateICmpNE(rest, zero)),
                                  b.CreateICmpSLT(b.CreateXor(rest, y), zero));
  if (fn == BinaryFn::k_floordiv)
    return b.CreateSub(quotient, b.CreateZExt(down, type));
  return b.CreateAdd(rest, b.CreateSelect(down, y, zero));
}

llvm::Value *EmitContext::compare(tileir::ComparePred pred, DType t, llvm::Value *x, llvm::Value *y) {
  using llvm::CmpInst;
  unsigned p = unsigned(pred);
  if (isFloat(t)) {
    static constexpr CmpInst::Predicate floats[] = {CmpInst::FCMP_OEQ, CmpInst::FCMP_UNE, CmpInst::FCMP_OLT,
                                                    CmpInst::FCMP_OLE, CmpInst::FCMP_OGT, CmpInst::FCMP_OGE};
    if (isSmall(t)) {
      x = toF32(t, x);
      y = toF32(t, y);
    }
    return b.CreateFCmp(floats[p], x, y);
  }
  static constexpr CmpInst::Predicate ints[] = {CmpInst::ICMP_EQ,  CmpInst::ICMP_NE,  CmpInst::ICMP_SLT,
                                                CmpInst::ICMP_SLE, CmpInst::ICMP_SGT, CmpInst::ICMP_SGE};
  static constexpr CmpInst::Predicate unsignedInts[] = {CmpInst::ICMP_EQ,  CmpInst::ICMP_NE,
                                                        CmpInst::ICMP_ULT, CmpInst::ICMP_ULE,
                                                        CmpInst::ICMP_UGT, CmpInst::ICMP_UGE};
  return b.CreateICmp(isSignedInt(t) ? ints[p] : unsignedInts[p], x, y);
}

} // namespace sectile::codegen
