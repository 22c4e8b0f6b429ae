// SPDX-License-Identifier: Apache-2.0
/// \file Conversions of the types of storage in steps of integers and f32, exact on every GPU. The meaning is that of
/// ir/base/DType.cpp.
#include "codegen/EmitContext.h"

#include <cmath>

namespace sectile::codegen {
namespace {

/// Fields of a small float whose sign stands right above them.
struct Fields {
  int exponentBits, mantissaBits;
  double largest;
  int magnitudeBits() const { return exponentBits + mantissaBits; }
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
};
Fields fieldsOf(DType t) {
  switch (t) {
  case DType::e2m1:
    return {2, 1, 6};
  case DType::e2m3:
    return {2, 3, 7.5};
  default:
    return {3, 2, 28};
  }
}

} // namespace

/// The fields moved to those of f32, whose exponent then is too small by the difference of the biases; subnormals of one
/// are subnormals of the other.
llvm::Value *EmitContext::storageToF32(DType from, llvm::Value *x) {
  llvm::Type *f32 = b.getFloatTy();
  llvm::Value *code = b.CreateZExt(x, b.getInt32Ty());
  if (from == DType::ue8m0) {
    llvm::Value *bits = b.CreateShl(code, 23);
    bits = b.CreateSelect(b.CreateICmpEQ(code, i32(0)), i32(0x00400000), bits);
    return b.CreateBitCast(b.CreateSelect(b.CreateICmpEQ(code, i32(0xff)), i32(0x7fc00000), bits), f32);
  }
  const Fields f = fieldsOf(from);
  const int magnitude = f.magnitudeBits();
  llvm::Value *sign = b.CreateShl(b.CreateAnd(code, i32(1u << magnitude)), 31 - magnitude);
  llvm::Value *rest = b.CreateShl(b.CreateAnd(code, i32((1u << magnitude) - 1)), 23 - f.mantissaBits);
  return b.CreateFMul(b.CreateBitCast(b.CreateOr(sign, rest), f32),
                      llvm::ConstantFP::get(f32, std::ldexp(1.0, 127 - f.bias())));
}

llvm::Value *EmitContext::storagePair(DType from, DType to, llvm::Value *both) {
  const Fields f = fieldsOf(from);
  const int magnitude = f.magnitudeBits();
  const int mantissa = to == DType::bf16 ? 7 : 10, bias = to == DType::bf16 ? 127 : 15;
  auto twice = [&](unsigned v) { return i32(v | v << 16); };
  llvm::Value *sign = b.CreateShl(b.CreateAnd(both, twice(1u << magnitude)), 15 - magnitude);
  llvm::Value *rest = b.CreateShl(b.CreateAnd(both, twice((1u << magnitude) - 1)), mantissa - f.mantissaBits);
  llvm::Type *pair = llvm::FixedVectorType::get(elementLlvm(to), 2);
  return b.CreateFMul(b.CreateBitCast(b.CreateOr(sign, rest), pair),
                      llvm::ConstantFP::get(pair, std::ldexp(1.0, bias - f.bias())));
}

llvm::Value *EmitContext::f32ToStorage(DType to, llvm::Value *x) {
  llvm::Type *f32 = b.getFloatTy();
  llvm::Value *bits = b.CreateBitCast(x, b.getInt32Ty());
  if (to == DType::ue8m0) {
    llvm::Value *field = b.CreateAnd(b.CreateLShr(bits, 23), i32(0xff));
    llvm::Value *isInfinite = b.CreateICmpEQ(b.CreateShl(bits, 1), i32(0xff000000u));
    return b.CreateTrunc(b.CreateSelect(isInfinite, i32(254), field), b.getInt8Ty());
  }
  const Fields f = fieldsOf(to);
  // minnum takes NaN to the largest value.
  llvm::Value *magnitude = b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                                                   llvm::ConstantFP::get(f32, f.largest));
  // Beside a power of two that many binades above, the last bit of the sum is the last one of the result.
  llvm::Value *power = b.CreateAnd(b.CreateBitCast(magnitude, b.getInt32Ty()), i32(0x7f800000));
  power = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, power, i32(std::uint32_t(127 + 1 - f.bias()) << 23));
  llvm::Value *above = b.CreateBitCast(b.CreateAdd(power, i32(std::uint32_t(23 - f.mantissaBits) << 23)), f32);
  llvm::Value *rounded = b.CreateFSub(b.CreateFAdd(magnitude, above), above);
  llvm::Value *moved = b.CreateFMul(rounded, llvm::ConstantFP::get(f32, std::ldexp(1.0, f.bias() - 127)));
  llvm::Value *code = b.CreateLShr(b.CreateBitCast(moved, b.getInt32Ty()), 23 - f.mantissaBits);
  llvm::Value *sign = b.CreateAnd(b.CreateLShr(bits, 31 - f.magnitudeBits()), i32(1u << f.magnitudeBits()));
  sign = b.CreateSelect(b.CreateFCmpUNO(x, x), i32(0), sign);
  return b.CreateTrunc(b.CreateOr(code, sign), b.getInt8Ty());
}

} // namespace sectile::codegen
