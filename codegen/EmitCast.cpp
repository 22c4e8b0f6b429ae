// SPDX-License-Identifier: Apache-2.0
/// \file Conversions between element types, one rounding each (ir/base/Scalar.h has the rules).
///
/// Where no instruction rounds straight from the source format, the value goes through f32 *rounded to odd*:
/// toward zero, with the last bit set if anything was lost. f32 has more than two bits beyond f16, bf16 and
/// fp8, so rounding that to nearest gives what rounding the source would.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {
namespace {
namespace intr = llvm::Intrinsic;
} // namespace

mlir::LogicalResult EmitContext::emitCast(tileir::CastOp op) {
  if (values.contains(op.getResult())) // a division made it
    return mlir::success();
  DType from = dtype(op.getX().getType()), to = dtype(op.getResult().getType());
  Regs x = regs(op.getX()), result(x.size());
  // Numbers that fit are made in 32 bits, and converted several times as fast.
  constexpr unsigned narrow = 31;
  if (from == DType::index && isFloat(to) && indexFacts.of(op.getX()).bits <= narrow) {
    from = DType::i32;
    for (llvm::Value *&v : x)
      v = b.CreateTrunc(v, b.getInt32Ty());
  }
  if (isStorage(from) && from != DType::ue8m0 && (to == DType::f16 || to == DType::bf16) && x.size() % 2 == 0) {
    for (size_t r = 0; r < x.size(); r += 2) {
      llvm::Value *both = b.CreateOr(b.CreateZExt(x[r], b.getInt32Ty()), b.CreateShl(b.CreateZExt(x[r + 1], b.getInt32Ty()), 16));
      llvm::Value *halves = storagePair(from, to, both);
      for (unsigned k = 0; k < 2; ++k)
        result[r + k] = b.CreateExtractElement(halves, k);
    }
    set(op.getResult(), std::move(result));
    return mlir::success();
  }
  bool pairs = hasFp8Conversions() && x.size() % 2 == 0 && from != to;
  if (pairs && isFp8(to) && from != DType::boolean) {
    // Two at a time, as the instruction does.
    for (size_t r = 0; r < x.size(); r += 2) {
      auto wide = [&](llvm::Value *v) {
        return isSmall(from) || from == DType::f32 ? toF32(from, v) : oddF32(from, v);
      };
      llvm::Value *both = packFp8(to, wide(x[r]), wide(x[r + 1]));
      result[r] = b.CreateTrunc(both, b.getInt8Ty());
      result[r + 1] = b.CreateTrunc(b.CreateLShr(both, 8), b.getInt8Ty());
    }
  } else if (pairs && isFp8(from) && isFloat(to) && !isFp8(to)) {
    for (size_t r = 0; r < x.size(); r += 2) {
      llvm::Value *both = b.CreateOr(b.CreateZExt(x[r], b.getInt16Ty()),
                                     b.CreateShl(b.CreateZExt(x[r + 1], b.getInt16Ty()), 8));
      llvm::Value *halves = unpackFp8(from, both);
      for (unsigned k = 0; k < 2; ++k)
        result[r + k] = cast(DType::f16, to, b.CreateExtractElement(halves, k));
    }
  } else {
    for (size_t r = 0; r < x.size(); ++r)
      result[r] = cast(from, to, x[r]);
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitBits(tgpu::BitsOp op) {
  llvm::Type *to = elementLlvm(dtype(op.getResult().getType()));
  Regs result;
  for (llvm::Value *v : regs(op.getX())) {
    llvm::Value *bits = b.CreateBitCast(v, b.getIntNTy(unsigned(v->getType()->getPrimitiveSizeInBits())));
    bits = b.CreateZExtOrTrunc(bits, b.getIntNTy(unsigned(to->getPrimitiveSizeInBits())));
    result.push_back(b.CreateBitCast(bits, to));
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

llvm::Value *EmitContext::cast(DType from, DType to, llvm::Value *x) {
  if (from == to || (from == DType::index && to == DType::i64) || (from == DType::i64 && to == DType::index))
    return x;
  llvm::Type *type = elementLlvm(to);
  if (isStorage(from))
    return cast(DType::f32, to, storageToF32(from, x));
  if (isStorage(to)) {
    if (from == DType::boolean)
      return f32ToStorage(to, b.CreateUIToFP(x, b.getFloatTy()));
    return f32ToStorage(to, isSmall(from) || from == DType::f32 ? toF32(from, x) : oddF32(from, x));
  }
  if (to == DType::boolean) {
    if (!isFloat(from))
      return b.CreateICmpNE(x, llvm::ConstantInt::get(x->getType(), 0));
    llvm::Value *wide = isSmall(from) ? toF32(from, x) : x;
    return b.CreateFCmpUNE(wide, llvm::ConstantFP::get(wide->getType(), 0.0));
  }
  if (from == DType::boolean) {
    if (!isFloat(to))
      return b.CreateZExt(x, type);
    if (!isFp8(to))
      return b.CreateUIToFP(x, type);
    return b.CreateSelect(x, b.getInt8(to == DType::e4m3 ? 0x38 : 0x3c), b.getInt8(0)); // 1.0
  }
  if (isFloat(from) && isFloat(to)) {
    if (isSmall(from) || from == DType::f32) {
      if (from == DType::f16 && to == DType::f64)
        return b.CreateFPExt(x, type);
      return to == DType::f64 ? b.CreateFPExt(toF32(from, x), type) : fromF32(to, toF32(from, x));
    }
    if (to == DType::f32 || to == DType::f16) // one instruction, one rounding
      return b.CreateFPTrunc(x, type);
    return fromF32(to, oddF32(from, x));
  }
  if (isFloat(to)) {
    if (isFp8(to) || to == DType::bf16)
      return fromF32(to, oddF32(from, x));
    return isSignedInt(from) ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  }
  if (isFloat(from)) {
    llvm::Value *wide = isSmall(from) ? toF32(from, x) : x;
    return b.CreateIntrinsic(isSignedInt(to) ? intr::fptosi_sat : intr::fptoui_sat, {type, wide->getType()},
                             {wide});
  }
  return isSignedInt(from) ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

llvm::Value *EmitContext::toF32(DType from, llvm::Value *x) {
  if (from == DType::f32)
    return x;
  if (isFp8(from)) {
    llvm::Value *half =
        hasFp8Conversions()
            ? b.CreateExtractElement(unpackFp8(from, b.CreateZExt(x, b.getInt16Ty())), std::uint64_t(0))
            : softFp8ToF16(from, x);
    return b.CreateFPExt(half, b.getFloatTy());
  }
  if (from == DType::bf16)
    if (llvm::Value *upper = upperHalfOfWord(x))
      return upper;
  return b.CreateFPExt(x, b.getFloatTy());
}

/// A bf16 that is the upper half of a 32-bit word of a vector is that word without the lower half: one
/// instruction, where taking the half out and shifting it back would be two.
llvm::Value *EmitContext::upperHalfOfWord(llvm::Value *x) {
  auto *extract = llvm::dyn_cast<llvm::ExtractElementInst>(x);
  auto *index = extract ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
  auto *vector = extract ? llvm::dyn_cast<llvm::FixedVectorType>(extract->getVectorOperandType()) : nullptr;
  if (!index || !vector || vector->getNumElements() % 2 || index->getZExtValue() % 2 == 0)
    return nullptr;
  llvm::Type *words = llvm::FixedVectorType::get(b.getInt32Ty(), vector->getNumElements() / 2);
  llvm::Value *word =
      b.CreateExtractElement(b.CreateBitCast(extract->getVectorOperand(), words), index->getZExtValue() / 2);
  return b.CreateBitCast(b.CreateAnd(word, i32(0xffff0000u)), b.getFloatTy());
}

llvm::Value *EmitContext::fromF32(DType to, llvm::Value *x) {
  if (to == DType::f32)
    return x;
  if (!isFp8(to))
    return b.CreateFPTrunc(x, elementLlvm(to));
  if (!hasFp8Conversions())
    return softFp8(to, x);
  return b.CreateTrunc(packFp8(to, x, llvm::ConstantFP::get(b.getFloatTy(), 0.0)), b.getInt8Ty());
}

llvm::Value *EmitContext::oddF32(DType from, llvm::Value *x) {
  llvm::Type *f32 = b.getFloatTy();
  llvm::Value *towardZero, *inexact;
  if (from == DType::f64) {
    towardZero = b.CreateIntrinsic(intr::nvvm_d2f_rz, {x});
    inexact = b.CreateFCmpONE(b.CreateFPExt(towardZero, x->getType()), x); // NaN and infinity stay
  } else {
    bool isSigned = isSignedInt(from);
    if (byteSize(from) <= 2) // exact
      return isSigned ? b.CreateSIToFP(x, f32) : b.CreateUIToFP(x, f32);
    bool isWide = byteSize(from) == 8;
    towardZero = b.CreateIntrinsic(isWide ? (isSigned ? intr::nvvm_ll2f_rz : intr::nvvm_ull2f_rz)
                                          : (isSigned ? intr::nvvm_i2f_rz : intr::nvvm_ui2f_rz),
                                   {x});
    llvm::Value *back =
        isSigned ? b.CreateFPToSI(towardZero, x->getType()) : b.CreateFPToUI(towardZero, x->getType());
    inexact = b.CreateICmpNE(back, x);
  }
  llvm::Value *bits = b.CreateBitCast(towardZero, b.getInt32Ty());
  return b.CreateBitCast(b.CreateOr(bits, b.CreateZExt(inexact, b.getInt32Ty())), f32);
}

llvm::Value *EmitContext::packFp8(DType to, llvm::Value *low, llvm::Value *high) {
  if (hasFp8Conversions()) // saturates finite values and infinities, keeps NaN
    return b.CreateIntrinsic(to == DType::e4m3 ? intr::nvvm_ff_to_e4m3x2_rn : intr::nvvm_ff_to_e5m2x2_rn,
                             {high, low});
  return b.CreateOr(b.CreateZExt(softFp8(to, low), b.getInt16Ty()),
                    b.CreateShl(b.CreateZExt(softFp8(to, high), b.getInt16Ty()), 8));
}

/// f32 to fp8 in integer steps: clamp, go to f16 rounded to odd (for e4m3 scaled by 2^-8, which makes the
/// exponent fields and the subnormals of both formats agree), then round the f16 bits to nearest even.
llvm::Value *EmitContext::softFp8(DType to, llvm::Value *x) {
  bool e4m3 = to == DType::e4m3;
  llvm::Type *f32 = b.getFloatTy(), *i16 = b.getInt16Ty();
  llvm::Value *bits = b.CreateBitCast(x, b.getInt32Ty());
  llvm::Value *sign = b.CreateTrunc(b.CreateLShr(b.CreateAnd(bits, i32(0x80000000u)), 24), b.getInt8Ty());
  llvm::Value *magnitude = b.CreateUnaryIntrinsic(intr::fabs, x);
  llvm::Value *isNan = b.CreateFCmpUNO(x, x);
  magnitude =
      b.CreateBinaryIntrinsic(intr::minnum, magnitude, llvm::ConstantFP::get(f32, e4m3 ? 448.0 : 57344.0));
  if (e4m3)
    magnitude = b.CreateFMul(magnitude, llvm::ConstantFP::get(f32, 0x1p-8));
  llvm::Value *half = b.CreateFPTrunc(magnitude, b.getHalfTy());
  // Nearest to odd: where it was rounded, take the odd one of the two neighbours.
  llvm::Value *back = b.CreateFPExt(half, f32), *halfBits = b.CreateBitCast(half, i16);
  llvm::Value *over = b.CreateFCmpOGT(back, magnitude), *under = b.CreateFCmpOLT(back, magnitude);
  halfBits = b.CreateSub(halfBits, b.CreateZExt(over, i16)); // now toward zero
  halfBits = b.CreateOr(halfBits, b.CreateZExt(b.CreateOr(over, under), i16));
  unsigned drop = e4m3 ? 7 : 8;
  auto c = [&](unsigned v) { return llvm::ConstantInt::get(i16, v); };
  llvm::Value *even = b.CreateAnd(b.CreateLShr(halfBits, drop), c(1));
  llvm::Value *rounded =
      b.CreateLShr(b.CreateAdd(b.CreateAdd(halfBits, c((1u << (drop - 1)) - 1)), even), drop);
  llvm::Value *code = b.CreateSelect(isNan, b.getInt8(0x7f), b.CreateTrunc(rounded, b.getInt8Ty()));
  return b.CreateOr(code, sign);
}

llvm::Value *EmitContext::unpackFp8(DType from, llvm::Value *pair) {
  if (hasFp8Conversions())
    return b.CreateIntrinsic(
        from == DType::e4m3 ? intr::nvvm_e4m3x2_to_f16x2_rn : intr::nvvm_e5m2x2_to_f16x2_rn, {pair});
  llvm::Value *r = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getHalfTy(), 2));
  for (unsigned k = 0; k < 2; ++k)
    r = b.CreateInsertElement(r, softFp8ToF16(from, b.CreateTrunc(b.CreateLShr(pair, 8 * k), b.getInt8Ty())),
                              k);
  return r;
}

llvm::Value *EmitContext::softFp8ToF16(DType from, llvm::Value *x) {
  llvm::Type *i16 = b.getInt16Ty();
  llvm::Value *bits = b.CreateZExt(x, i16);
  if (from == DType::e5m2) // the upper half of an f16
    return b.CreateBitCast(b.CreateShl(bits, 8), b.getHalfTy());
  auto c = [&](unsigned v) { return llvm::ConstantInt::get(i16, v); };
  llvm::Value *magnitude = b.CreateAnd(bits, c(0x7f)), *sign = b.CreateShl(b.CreateAnd(bits, c(0x80)), 8);
  llvm::Value *scaled = b.CreateFMul(b.CreateBitCast(b.CreateShl(magnitude, 7), b.getHalfTy()),
                                     llvm::ConstantFP::get(b.getHalfTy(), 256.0));
  llvm::Value *code =
      b.CreateSelect(b.CreateICmpEQ(magnitude, c(0x7f)), c(0x7e00), b.CreateBitCast(scaled, i16));
  return b.CreateBitCast(b.CreateOr(code, sign), b.getHalfTy());
}

} // namespace sectile::codegen
