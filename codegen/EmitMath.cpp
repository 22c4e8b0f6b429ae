// SPDX-License-Identifier: Apache-2.0
/// \file Math functions. The algorithms are in MathAlgorithms.h; here is the builder that emits them.
///
/// Largest errors in ulp (measured on the host against long double, with the hardware approximations at their
/// documented worst; docs/language-math.md has the table with ranges):
///
///            exp  exp2  log  log2  sin  cos  tanh  erf  sigmoid  rsqrt  pow
///     f32     4     3    2     2    2    2     3    3      5       2     1
///     f64     2     2    2     1    3    3     4    4      4       2     4
///
/// f16, bf16 and fp8 compute in f32 and round once. Subnormal results keep these bounds in units of the
/// smallest subnormal, but exp, exp2 and sigmoid in f32 give 0 below 2^-126.
#include "codegen/MathGroups.h"

#include "codegen/MathAlgorithms.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/MDBuilder.h"

#include <bit>

namespace sectile::codegen {
namespace {
namespace intr = llvm::Intrinsic;

/// The builder of MathAlgorithms.h over LLVM IR.
class IrMath {
public:
  using F32 = llvm::Value *;
  using F64 = llvm::Value *;
  using I32 = llvm::Value *;
  using I64 = llvm::Value *;
  using Bool = llvm::Value *;
  using V = llvm::Value *;

  IrMath(Builder &b, llvm::Function *fn, llvm::GlobalVariable *table) : b(b), fn(fn), table(table) {}

  V f32(float c) { return llvm::ConstantFP::get(b.getFloatTy(), llvm::APFloat(c)); }
  V f64(double c) { return llvm::ConstantFP::get(b.getDoubleTy(), llvm::APFloat(c)); }
  V i32(std::int32_t c) { return b.getInt32(std::uint32_t(c)); }
  V i64(std::int64_t c) { return b.getInt64(std::uint64_t(c)); }

  V add(V x, V y) { return b.CreateFAdd(x, y); }
  V sub(V x, V y) { return b.CreateFSub(x, y); }
  V mul(V x, V y) { return b.CreateFMul(x, y); }
  V div(V x, V y) { return b.CreateFDiv(x, y); }
  V fma(V x, V y, V z) { return b.CreateIntrinsic(intr::fma, {x->getType()}, {x, y, z}); }
  V neg(V x) { return b.CreateFNeg(x); }
  V abs(V x) { return b.CreateUnaryIntrinsic(intr::fabs, x); }
  V rint(V x) { return b.CreateUnaryIntrinsic(intr::roundeven, x); }
  V sqrt(V x) { return b.CreateUnaryIntrinsic(intr::sqrt, x); }
  V minimum(V x, V y) { return b.CreateBinaryIntrinsic(intr::minimum, x, y); }
  V minimumNumber(V x, V y) { return b.CreateBinaryIntrinsic(intr::minimumnum, x, y); }
  V mulTowardZero(V x, V y) { return b.CreateIntrinsic(intr::nvvm_mul_rz_f, {x, y}); }
  V less(V x, V y) { return b.CreateFCmpOLT(x, y); }
  V equal(V x, V y) { return b.CreateFCmpOEQ(x, y); }
  V isNan(V x) { return b.CreateFCmpUNO(x, x); }

  V iadd(V x, V y) { return b.CreateAdd(x, y); }
  V isub(V x, V y) { return b.CreateSub(x, y); }
  V imul(V x, V y) { return b.CreateMul(x, y); }
  V iand(V x, V y) { return b.CreateAnd(x, y); }
  V ior(V x, V y) { return b.CreateOr(x, y); }
  V ixor(V x, V y) { return b.CreateXor(x, y); }
  V shl(V x, int n) { return b.CreateShl(x, std::uint64_t(n)); }
  V lshr(V x, int n) { return b.CreateLShr(x, std::uint64_t(n)); }
  V ashr(V x, int n) { return b.CreateAShr(x, std::uint64_t(n)); }
  V shlBy(V x, V n) { return b.CreateShl(x, n); }
  V lshrBy(V x, V n) { return b.CreateLShr(x, n); }
  V iless(V x, V y) { return b.CreateICmpSLT(x, y); }
  V iequal(V x, V y) { return b.CreateICmpEQ(x, y); }
  V umulHigh(V x, V y) {
    llvm::Type *wideType = b.getInt128Ty();
    V product = b.CreateMul(b.CreateZExt(x, wideType), b.CreateZExt(y, wideType));
    return b.CreateTrunc(b.CreateLShr(product, 64), b.getInt64Ty());
  }

  V both(V c, V d) { return b.CreateAnd(c, d); }
  V either(V c, V d) { return b.CreateOr(c, d); }
  V invert(V c) { return b.CreateNot(c); }
  V select(V c, V x, V y) { return b.CreateSelect(c, x, y); }

  V bits(V x) { return b.CreateBitCast(x, x->getType()->isFloatTy() ? b.getInt32Ty() : b.getInt64Ty()); }
  V real(V x) { return b.CreateBitCast(x, x->getType()->isIntegerTy(32) ? b.getFloatTy() : b.getDoubleTy()); }
  V widen(V x) { return b.CreateFPExt(x, b.getDoubleTy()); }
  V narrow(V x) { return b.CreateFPTrunc(x, b.getFloatTy()); }
  V toI32(V x) { return b.CreateIntrinsic(intr::fptosi_sat, {b.getInt32Ty(), x->getType()}, {x}); }
  V toF32(V x) { return b.CreateSIToFP(x, b.getFloatTy()); }
  V toF64(V x) { return b.CreateSIToFP(x, b.getDoubleTy()); }
  V fromU64(V x) { return b.CreateUIToFP(x, b.getDoubleTy()); }
  V wide(V x) { return b.CreateZExt(x, b.getInt64Ty()); }
  V low(V x) { return b.CreateTrunc(x, b.getInt32Ty()); }

  V ex2(V x) { return b.CreateIntrinsic(intr::nvvm_ex2_approx_ftz, {x->getType()}, {x}); }
  V rcp(V x) { return b.CreateIntrinsic(intr::nvvm_rcp_approx_ftz_f, {x}); }
  V rsqrtApprox(V x) { return b.CreateIntrinsic(intr::nvvm_rsqrt_approx_f, {x}); }
  V twoOverPi(V index) {
    V pointer = b.CreateInBoundsGEP(b.getInt64Ty(), table, b.CreateZExt(index, b.getInt64Ty()));
    llvm::LoadInst *word = b.CreateLoad(b.getInt64Ty(), pointer);
    word->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b.getContext(), {}));
    return word;
  }

  template <class Then, class Else> std::tuple<V, V> branch(V cond, Then &&yes, Else &&no) {
    llvm::LLVMContext &ctx = b.getContext();
    auto *thenBlock = llvm::BasicBlock::Create(ctx, "near", fn),
         *elseBlock = llvm::BasicBlock::Create(ctx, "far", fn),
         *join = llvm::BasicBlock::Create(ctx, "reduced", fn);
    b.CreateCondBr(cond, thenBlock, elseBlock);
    b.SetInsertPoint(thenBlock);
    auto [t0, t1] = yes();
    llvm::BasicBlock *thenEnd = b.GetInsertBlock();
    b.CreateBr(join);
    b.SetInsertPoint(elseBlock);
    auto [e0, e1] = no();
    llvm::BasicBlock *elseEnd = b.GetInsertBlock();
    b.CreateBr(join);
    b.SetInsertPoint(join);
    auto merge = [&](V x, V y) {
      llvm::PHINode *phi = b.CreatePHI(x->getType(), 2);
      phi->addIncoming(x, thenEnd);
      phi->addIncoming(y, elseEnd);
      return phi;
    };
    V first = merge(t0, e0), second = merge(t1, e1);
    return {first, second};
  }

private:
  Builder &b;
  llvm::Function *fn;
  llvm::GlobalVariable *table;
};

/// The words of 2/pi in constant memory.
llvm::GlobalVariable *twoOverPiTable(llvm::Module &mod) {
  constexpr llvm::StringLiteral name = "sectile_two_over_pi";
  if (llvm::GlobalVariable *known = mod.getGlobalVariable(name, true))
    return known;
  llvm::Constant *words = llvm::ConstantDataArray::get(mod.getContext(), math::twoOverPiWords);
  return new llvm::GlobalVariable(mod, words->getType(), true, llvm::GlobalValue::InternalLinkage, words,
                                  name, nullptr, llvm::GlobalValue::NotThreadLocal, 4);
}

} // namespace

/// Calls a function of the module that `body` defines on first use. Keeps long sequences once per kernel.
llvm::Value *EmitContext::callHelper(llvm::StringRef name, llvm::Type *result,
                                     llvm::ArrayRef<llvm::Value *> args,
                                     llvm::function_ref<llvm::Value *(llvm::ArrayRef<llvm::Value *>)> body) {
  llvm::Function *&helper = helpers[name.str()];
  if (!helper) {
    llvm::SmallVector<llvm::Type *> types;
    for (llvm::Value *a : args)
      types.push_back(a->getType());
    helper = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                    llvm::GlobalValue::InternalLinkage, "sectile_" + name, mod);
    helper->addFnAttr(llvm::Attribute::NoUnwind);
    helper->addFnAttr(llvm::Attribute::WillReturn);
    helper->setMemoryEffects(llvm::MemoryEffects::none());
    Builder::InsertPointGuard guard(b);
    llvm::Function *caller = std::exchange(fn, helper);
    b.SetInsertPoint(llvm::BasicBlock::Create(ctx, "entry", helper));
    llvm::SmallVector<llvm::Value *> parameters;
    for (llvm::Argument &a : helper->args())
      parameters.push_back(&a);
    b.CreateRet(body(parameters));
    fn = caller;
  }
  return b.CreateCall(helper, args);
}

llvm::Value *EmitContext::mathFunction(tileir::UnaryFn fnKind, llvm::Value *x) {
  using tileir::UnaryFn;
  bool isDouble = x->getType()->isDoubleTy();
  llvm::GlobalVariable *table =
      fnKind == UnaryFn::k_sin || fnKind == UnaryFn::k_cos ? twoOverPiTable(mod) : nullptr;
  auto emit = [&](llvm::Value *v) -> llvm::Value * {
    IrMath m(b, fn, table);
    switch (fnKind) {
    case UnaryFn::k_exp:
      return isDouble ? math::exp64(m, v) : math::exp32(m, v);
    case UnaryFn::k_exp2:
      return isDouble ? math::exp2_64(m, v) : m.ex2(v);
    case UnaryFn::k_log:
      return isDouble ? math::log64(m, v) : math::log32(m, v);
    case UnaryFn::k_log2:
      return isDouble ? math::log2_64(m, v) : math::log2_32(m, v);
    case UnaryFn::k_sin:
      return isDouble ? math::sineOf64(m, v, false) : math::sineOf32(m, v, false);
    case UnaryFn::k_cos:
      return isDouble ? math::sineOf64(m, v, true) : math::sineOf32(m, v, true);
    case UnaryFn::k_tanh:
      return isDouble ? math::tanh64(m, v) : math::tanh32(m, v);
    case UnaryFn::k_erf:
      return isDouble ? math::erf64(m, v) : math::erf32(m, v);
    case UnaryFn::k_sigmoid:
      return isDouble ? math::sigmoid64(m, v) : math::sigmoid32(m, v);
    case UnaryFn::k_rsqrt:
      return isDouble ? m.div(m.f64(1.0), m.sqrt(v)) : m.rsqrtApprox(v);
    default:
      return nullptr;
    }
  };
  // Long ones become functions; the short f32 ones stay in line.
  bool isLong =
      fnKind == UnaryFn::k_sin || fnKind == UnaryFn::k_cos || (isDouble && fnKind != UnaryFn::k_rsqrt);
  if (!isLong)
    return emit(x);
  std::string name = tileir::stringifyUnaryFn(fnKind).str() + (isDouble ? "_f64" : "_f32");
  return callHelper(name, x->getType(), {x},
                    [&](llvm::ArrayRef<llvm::Value *> args) { return emit(args[0]); });
}

Regs tanhOf(Builder &b, llvm::Function *fn, llvm::ArrayRef<llvm::Value *> x) {
  constexpr size_t most = 32;
  Regs result;
  IrMath m(b, fn, nullptr);
  auto block = [&](const char *name) { return llvm::BasicBlock::Create(b.getContext(), name, fn); };
  for (; !x.empty(); x = x.drop_front(std::min(most, x.size()))) {
    llvm::ArrayRef<llvm::Value *> group = x.take_front(most);
    llvm::SmallVector<llvm::Value *> largest; // NaN stays NaN either way
    for (llvm::Value *v : group)
      largest.push_back(m.abs(v));
    for (; largest.size() > 1; largest.resize((largest.size() + 1) / 2))
      for (size_t k = 0; k < largest.size() / 2; ++k)
        largest[k] = b.CreateBinaryIntrinsic(intr::maxnum, largest[k], largest[largest.size() - 1 - k]);
    llvm::BasicBlock *small = block("small"), *any = block("any"), *done = block("tanh");
    // The whole warp takes the branch together.
    llvm::Value *isLarge = b.CreateNot(m.less(largest.front(), m.f32(math::tanhSmallest)));
    b.CreateCondBr(b.CreateIntrinsic(intr::nvvm_vote_any_sync, {b.getInt32(std::uint32_t(-1)), isLarge}), any, small,
                   llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
    llvm::SmallVector<llvm::Value *> quick, all;
    b.SetInsertPoint(small);
    for (llvm::Value *v : group)
      quick.push_back(math::tanhSmall32(m, v));
    b.CreateBr(done);
    b.SetInsertPoint(any);
    for (llvm::Value *v : group)
      all.push_back(math::tanh32(m, v));
    b.CreateBr(done);
    b.SetInsertPoint(done);
    for (auto [a, c] : llvm::zip_equal(quick, all)) {
      llvm::PHINode *phi = b.CreatePHI(a->getType(), 2);
      phi->addIncoming(a, small);
      phi->addIncoming(c, any);
      result.push_back(phi);
    }
  }
  return result;
}

/// Quotients of f32, correctly rounded: the sequences of MathAlgorithms.h for up to 16 registers at a time,
/// their checks gathered into one branch that is rarely taken. Zero numerators, common behind masks, have a
/// check of their own before the machine's division.
Regs EmitContext::divideF32(llvm::ArrayRef<llvm::Value *> x, llvm::ArrayRef<llvm::Value *> s, DType to) {
  using Numbers = llvm::ArrayRef<size_t>;
  using PerRegister = llvm::function_ref<llvm::Value *(size_t)>;
  Regs result(x.size());
  IrMath m(b, fn, nullptr);
  auto least = [&](Numbers group, PerRegister of) { // a tree: short chains
    llvm::SmallVector<llvm::Value *> list;
    for (size_t k : group)
      list.push_back(of(k));
    for (; list.size() > 1; list.resize((list.size() + 1) / 2))
      for (size_t k = 0; k < list.size() / 2; ++k)
        list[k] = m.minimum(list[k], list[list.size() - 1 - k]);
    return list.front();
  };
  // One after the other; two of 16 bits meet in one word as soon as they are there.
  auto met = [&](size_t count, llvm::function_ref<llvm::Value *(size_t)> of) {
    Regs words;
    for (size_t i = 0; i < count; ++i) {
      words.push_back(fromF32(to, of(i)));
      if (to == DType::f32 || count % 2 || i % 2 == 0)
        continue;
      llvm::Value *high = words.pop_back_val();
      words.back() = b.CreateBitCast(pair(words.back(), high), b.getInt32Ty());
    }
    return words;
  };
  auto apart = [&](const Regs &words, size_t count, size_t i) -> llvm::Value * {
    if (words.size() == count)
      return words[i];
    auto *two = llvm::FixedVectorType::get(elementLlvm(to), 2);
    return b.CreateExtractElement(b.CreateBitCast(words[i / 2], two), std::uint64_t(i % 2));
  };
  auto divideGroup = [&](Numbers group, PerRegister quotient, PerRegister safety, llvm::Value *bound,
                         PerRegister keepsZeros) {
    const Regs fastly = met(group.size(), [&](size_t i) { return result[group[i]] = quotient(group[i]); });
    llvm::BasicBlock *zeros = newBlock("zeros"), *exact = newBlock("divide"), *done = newBlock("divided");
    llvm::MDNode *rarely = llvm::MDBuilder(ctx).createUnlikelyBranchWeights();
    // The whole warp takes the branch together.
    auto leave = [&](llvm::Value *key, llvm::BasicBlock *to) {
      llvm::Value *unsafe = b.CreateNot(b.CreateFCmpOGE(key, bound));
      b.CreateCondBr(b.CreateIntrinsic(intr::nvvm_vote_any_sync, {i32(-1), unsafe}), to, done, rarely);
    };
    llvm::BasicBlock *fast = b.GetInsertBlock();
    leave(least(group, safety), zeros);
    b.SetInsertPoint(zeros);
    leave(least(group,
                [&](size_t k) {
                  llvm::Value *isKept = m.both(m.equal(x[k], m.f32(0)), keepsZeros(k));
                  return m.select(isKept, m.f32(math::inf32), safety(k));
                }),
          exact);
    b.SetInsertPoint(exact);
    Regs exactly = met(group.size(), [&](size_t i) { return b.CreateFDiv(x[group[i]], s[group[i]]); });
    b.CreateBr(done);
    b.SetInsertPoint(done);
    for (auto [quick, value] : llvm::zip_equal(fastly, exactly)) {
      llvm::PHINode *phi = b.CreatePHI(value->getType(), 3);
      phi->addIncoming(quick, fast);
      phi->addIncoming(quick, zeros);
      phi->addIncoming(value, exact);
      value = phi;
    }
    for (auto [i, k] : llvm::enumerate(group))
      result[k] = apart(exactly, group.size(), i);
  };
  // Quotients of 16 bits take half of the registers: where blocks are to share a multiprocessor, groups are as large as what is
  // left beside numerators and quotients allows, so that each group leaves room for a larger one.
  auto inGroups = [&](Numbers all, llvm::function_ref<void(Numbers)> emit) {
    constexpr std::int64_t largest = 16, least = 4, addressing = 20;
    auto blocks = func->getAttrOfType<mlir::IntegerAttr>(tgpu::minBlocksAttr);
    const std::int64_t registers = blocks && to != DType::f32 ? target.registersPerSm / (blocks.getInt() * warps * target.warpSize) : 256;
    for (std::int64_t done = 0, left = std::int64_t(all.size()); left > 0;) {
      const std::int64_t room = registers - addressing - left - done / 2;
      const std::int64_t most = std::int64_t(std::bit_floor(std::uint64_t(std::clamp(room * 2 / 3, least, largest))));
      const std::int64_t taken = std::min(most, left);
      emit(all.slice(size_t(done), size_t(taken)));
      done += taken, left -= taken;
    }
  };

  llvm::MapVector<llvm::Value *, llvm::SmallVector<size_t>> byDivisor;
  for (size_t k = 0; k < x.size(); ++k)
    byDivisor[s[k]].push_back(k);
  llvm::SmallVector<size_t> others;
  for (auto &[divisor, list] : byDivisor) {
    auto *constant = llvm::dyn_cast<llvm::ConstantFP>(divisor);
    if (constant && constant->getValueAPF().getExactInverse(nullptr)) {
      for (size_t k : list)
        result[k] = fromF32(to, b.CreateFDiv(x[k], divisor)); // LLVM multiplies
    } else if (list.size() < 4) {
      others.append(list.begin(), list.end());
    } else {
      math::Divisor32<IrMath> d = math::divisor32(m, divisor);
      inGroups(list, [&](Numbers group) {
        divideGroup(
            group, [&](size_t k) { return math::quotient32(m, x[k], d.s, d.reciprocal); },
            [&](size_t k) { return m.abs(result[k]); }, d.least, [&](size_t) { return d.keepsZeros; });
      });
    }
  }
  if (others.size() == 1)
    result[others[0]] = fromF32(to, b.CreateFDiv(x[others[0]], s[others[0]]));
  else
    inGroups(others, [&](Numbers group) {
      divideGroup(
          group, [&](size_t k) { return math::quotient32(m, x[k], s[k], math::reciprocal32(m, s[k])); },
          [&](size_t k) { return math::quotientSafety32(m, x[k], result[k]); }, m.f32(0x1p-100f),
          [&](size_t k) { return m.both(m.less(m.f32(0), s[k]), m.equal(result[k], m.f32(0))); });
    });
  return result;
}

llvm::Value *EmitContext::power(llvm::Value *x, llvm::Value *y) {
  bool isDouble = x->getType()->isDoubleTy();
  return callHelper(isDouble ? "pow_f64" : "pow_f32", x->getType(), {x, y},
                    [&](llvm::ArrayRef<llvm::Value *> args) {
                      IrMath m(b, fn, nullptr);
                      return isDouble ? math::pow64(m, args[0], args[1]) : math::pow32(m, args[0], args[1]);
                    });
}

/// x - trunc(x / y) * y without rounding: long division of the mantissas as integers, several bits of the
/// quotient a step.
llvm::Value *EmitContext::floatRemainder(llvm::Value *x, llvm::Value *y) {
  bool isDouble = x->getType()->isDoubleTy();
  llvm::Type *type = x->getType();
  return callHelper(isDouble ? "rem_f64" : "rem_f32", type, {x, y}, [&](llvm::ArrayRef<llvm::Value *> args) {
    unsigned fraction = isDouble ? 52 : 23, width = isDouble ? 64 : 32;
    unsigned step = 63 - fraction; // a remainder below 2^(fraction + 1) shifted by this stays in 64 bits
    llvm::Type *bitsType = i(width);
    auto parts = [&](llvm::Value *v) {
      llvm::Value *bits =
          b.CreateZExt(b.CreateBitCast(b.CreateUnaryIntrinsic(intr::fabs, v), bitsType), b.getInt64Ty());
      llvm::Value *exponent = b.CreateLShr(bits, fraction);
      llvm::Value *mantissa = b.CreateAnd(bits, i64((std::int64_t(1) << fraction) - 1));
      llvm::Value *subnormal = b.CreateICmpEQ(exponent, i64(0));
      mantissa = b.CreateSelect(subnormal, mantissa, b.CreateOr(mantissa, i64(std::int64_t(1) << fraction)));
      return std::pair(b.CreateSelect(subnormal, i64(1), exponent), mantissa);
    };
    auto [xExponent, xMantissa] = parts(args[0]);
    auto [yExponent, yMantissa] = parts(args[1]);
    llvm::Value *absX = b.CreateUnaryIntrinsic(intr::fabs, args[0]),
                *absY = b.CreateUnaryIntrinsic(intr::fabs, args[1]);
    llvm::Value *infinity = llvm::ConstantFP::getInfinity(type), *zero = llvm::ConstantFP::get(type, 0.0);
    llvm::Value *defined =
        b.CreateAnd(b.CreateAnd(b.CreateFCmpOLT(absX, infinity), b.CreateFCmpOGT(absY, zero)),
                    b.CreateFCmpOLE(absY, infinity));
    llvm::Value *divides = b.CreateAnd(defined, b.CreateFCmpOGE(absX, absY));

    llvm::Value *whole =
        b.CreateSelect(defined, args[0], llvm::ConstantFP::getQNaN(type)); // |x| < |y|: x itself

    llvm::BasicBlock *entry = b.GetInsertBlock(), *first = newBlock("divide"), *loop = newBlock("step"),
                     *scale = newBlock("scale"), *done = newBlock("done");
    b.CreateCondBr(divides, first, done);
    b.SetInsertPoint(first);
    llvm::Value *start = b.CreateURem(xMantissa, yMantissa), *distance = b.CreateSub(xExponent, yExponent);
    b.CreateCondBr(b.CreateICmpSGT(distance, i64(0)), loop, scale);

    b.SetInsertPoint(loop);
    llvm::PHINode *rest = b.CreatePHI(b.getInt64Ty(), 2), *left = b.CreatePHI(b.getInt64Ty(), 2);
    llvm::Value *bits = b.CreateBinaryIntrinsic(intr::smin, left, i64(step));
    llvm::Value *next = b.CreateURem(b.CreateShl(rest, bits), yMantissa), *nextLeft = b.CreateSub(left, bits);
    rest->addIncoming(start, first);
    rest->addIncoming(next, loop);
    left->addIncoming(distance, first);
    left->addIncoming(nextLeft, loop);
    dontUnroll(b.CreateCondBr(b.CreateICmpSGT(nextLeft, i64(0)), loop, scale));

    // remainder * 2^(exponent of y) is exact: shift it to its place in the format.
    b.SetInsertPoint(scale);
    llvm::PHINode *remainder = b.CreatePHI(b.getInt64Ty(), 2);
    remainder->addIncoming(start, first);
    remainder->addIncoming(next, loop);
    llvm::Value *zeros = b.CreateIntrinsic(intr::ctlz, {b.getInt64Ty()}, {remainder, b.getFalse()});
    llvm::Value *normalise = b.CreateSub(zeros, i64(63 - fraction)); // to bring the leading bit to `fraction`
    normalise = b.CreateBinaryIntrinsic(intr::smin, normalise, b.CreateSub(yExponent, i64(1)));
    llvm::Value *shifted = b.CreateShl(remainder, b.CreateAnd(normalise, i64(63)));
    llvm::Value *exponent = b.CreateSub(yExponent, normalise);
    llvm::Value *hidden = b.CreateLShr(shifted, fraction); // 0: subnormal, whose exponent field is 0
    llvm::Value *field = b.CreateSelect(b.CreateICmpEQ(hidden, i64(0)), i64(0), exponent);
    llvm::Value *code = b.CreateOr(b.CreateShl(field, fraction),
                                   b.CreateAnd(shifted, i64((std::int64_t(1) << fraction) - 1)));
    llvm::Value *magnitude = b.CreateBitCast(b.CreateTrunc(code, bitsType), type);
    llvm::Value *divided = b.CreateIntrinsic(intr::copysign, {type}, {magnitude, args[0]});
    b.CreateBr(done);

    b.SetInsertPoint(done);
    llvm::PHINode *result = b.CreatePHI(type, 2);
    result->addIncoming(whole, entry);
    result->addIncoming(divided, scale);
    return static_cast<llvm::Value *>(result);
  });
}

} // namespace sectile::codegen
