// SPDX-License-Identifier: Apache-2.0
/// \file Folds of the `tile` ops.
///
/// Constants are computed by ir/base/Scalar.h, which the interpreter uses too, so a folded value is the value
/// that the interpreter finds. A fold must also keep which lanes exist: `x + 0` is x, but a choice may only
/// drop an operand all of whose lanes exist.
#include "ir/TileDialect.h"
#include "ir/base/Scalar.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

namespace sectile::tileir {
namespace scalar = sectile::detail;
namespace {

/// The one value of a scalar or of a tile whose lanes are all equal.
struct Constant {
  DType dtype;
  uint64_t bits; ///< of the host type, in its low bytes
};

template <class T> T valueOf(uint64_t bits) {
  T value;
  if constexpr (std::same_as<T, bool>)
    return bits != 0;
  std::memcpy(static_cast<void *>(&value), &bits, sizeof(T));
  return value;
}

template <class T> uint64_t bitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

std::optional<Constant> constantOf(Attribute attr) {
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(attr))
    attr = splat.getSplatValue<Attribute>();
  auto typed = dyn_cast_if_present<TypedAttr>(attr);
  if (!typed)
    return std::nullopt;
  auto dtype = dtypeOfType(typed.getType());
  if (!dtype)
    return std::nullopt;
  if (auto number = dyn_cast<FloatAttr>(attr))
    return Constant{*dtype, number.getValue().bitcastToAPInt().getZExtValue()};
  if (auto number = dyn_cast<IntegerAttr>(attr))
    return Constant{*dtype, number.getValue().getZExtValue()};
  return std::nullopt;
}

/// The attribute of a value of `type`, a scalar or a tile. @pre the element type is c's.
TypedAttr attributeOf(const Constant &c, Type type) {
  Type element = elementOf(type);
  TypedAttr scalar;
  if (auto floating = dyn_cast<FloatType>(element)) {
    llvm::APInt bits(floating.getWidth(), c.bits, /*isSigned=*/false, /*implicitTrunc=*/true);
    scalar = FloatAttr::get(floating, llvm::APFloat(floating.getFloatSemantics(), bits));
  } else {
    unsigned width =
        isa<IndexType>(element) ? IndexType::kInternalStorageBitWidth : element.getIntOrFloatBitWidth();
    scalar =
        IntegerAttr::get(element, llvm::APInt(width, c.bits, /*isSigned=*/false, /*implicitTrunc=*/true));
  }
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return DenseElementsAttr::get(tile, Attribute(scalar));
  return scalar;
}

template <class T> Constant make(DType dtype, T value) { return {dtype, bitsOf(value)}; }

/// True if it can be seen that every lane of the value exists.
bool allLanesExist(Value value) {
  if (Operation *op = value.getDefiningOp())
    return isa<ConstantOp, SplatOp, IotaOp, FillOp, DimOp, GridOp>(op);
  auto function = dyn_cast<FunctionOpInterface>(cast<BlockArgument>(value).getOwner()->getParentOp());
  return bool(function);
}

/// Nothing for functions whose value the scalar library does not define.
template <class T> std::optional<Constant> compute(UnaryFn fn, DType dtype, T x) {
  constexpr bool isFloating = scalar::FloatElement<T>;
  if constexpr (isFloating || scalar::IntElement<T>) {
    if (fn == UnaryFn::k_neg)
      return make(dtype, scalar::neg(x));
    if (fn == UnaryFn::k_abs)
      return make(dtype, scalar::abs(x));
  }
  if constexpr (isFloating) {
    if (fn == UnaryFn::k_sqrt)
      return make(dtype, scalar::sqrt(x));
    if (fn == UnaryFn::k_isnan)
      return make(DType::boolean, scalar::isNan(x));
    if (fn == UnaryFn::k_isinf)
      return make(DType::boolean, std::isinf(scalar::cast<double>(x)));
    // Exact in double, and the result is a value of T again.
    double wide = scalar::cast<double>(x);
    if (std::isfinite(wide)) {
      switch (fn) {
      case UnaryFn::k_floor:
        return make(dtype, scalar::cast<T>(std::floor(wide)));
      case UnaryFn::k_ceil:
        return make(dtype, scalar::cast<T>(std::ceil(wide)));
      case UnaryFn::k_trunc:
        return make(dtype, scalar::cast<T>(std::trunc(wide)));
      case UnaryFn::k_round:
        return make(dtype, scalar::cast<T>(std::nearbyint(wide)));
      default:
        break;
      }
    }
  } else if (fn == UnaryFn::k_bitnot) {
    if constexpr (std::same_as<T, bool>)
      return make(dtype, !x);
    else
      return make(dtype, T(~x));
  }
  return std::nullopt;
}

template <class T> std::optional<Constant> compute(BinaryFn fn, DType dtype, T a, T b) {
  constexpr bool isFloating = scalar::FloatElement<T>, isInteger = scalar::IntElement<T>;
  if (fn == BinaryFn::k_max)
    return make(dtype, scalar::max(a, b));
  if (fn == BinaryFn::k_min)
    return make(dtype, scalar::min(a, b));
  if constexpr (isFloating || isInteger) {
    switch (fn) {
    case BinaryFn::k_add:
      return make(dtype, scalar::add(a, b));
    case BinaryFn::k_sub:
      return make(dtype, scalar::sub(a, b));
    case BinaryFn::k_mul:
      return make(dtype, scalar::mul(a, b));
    case BinaryFn::k_div:
      return make(dtype, scalar::div(a, b));
    case BinaryFn::k_rem:
      return make(dtype, scalar::rem(a, b));
    case BinaryFn::k_maxnum:
      return make(dtype, scalar::maxNum(a, b));
    case BinaryFn::k_minnum:
      return make(dtype, scalar::minNum(a, b));
    default:
      break;
    }
  }
  if constexpr (!isFloating) {
    switch (fn) {
    case BinaryFn::k_bitand:
      return make(dtype, T(a & b));
    case BinaryFn::k_bitor:
      return make(dtype, T(a | b));
    case BinaryFn::k_bitxor:
      return make(dtype, T(a ^ b));
    default:
      break;
    }
  }
  if constexpr (isInteger) {
    switch (fn) {
    case BinaryFn::k_floordiv:
      return make(dtype, scalar::floorDiv(a, b));
    case BinaryFn::k_floormod:
      return make(dtype, scalar::floorMod(a, b));
    case BinaryFn::k_shl:
      return make(dtype, scalar::shl(a, b));
    case BinaryFn::k_shr:
      return make(dtype, scalar::shr(a, b));
    default:
      break;
    }
  }
  return std::nullopt;
}

template <class T> bool compute(ComparePred pred, T x, T y) {
  auto holds = [pred](auto a, auto b) {
    switch (pred) {
    case ComparePred::k_eq:
      return a == b;
    case ComparePred::k_ne:
      return a != b;
    case ComparePred::k_lt:
      return a < b;
    case ComparePred::k_le:
      return a <= b;
    case ComparePred::k_gt:
      return a > b;
    case ComparePred::k_ge:
      return a >= b;
    }
    return false;
  };
  if constexpr (scalar::SmallFloat<T>)
    return holds(float(x), float(y));
  else
    return holds(x, y);
}

template <class F> decltype(auto) visit(const Constant &c, F &&f) {
  return scalar::visitDType(c.dtype, [&]<class T>(std::type_identity<T>) { return f(valueOf<T>(c.bits)); });
}
/// Of types of storage, too.
template <class F> decltype(auto) visitAny(const Constant &c, F &&f) {
  return scalar::visitAnyDType(c.dtype, [&]<class T>(std::type_identity<T>) { return f(valueOf<T>(c.bits)); });
}

bool isZero(const Constant &c) {
  return visit(c, []<class T>(T x) { return bitsOf(x) == 0; });
}

bool isOne(const Constant &c) {
  return visit(c, []<class T>(T x) { return bitsOf(x) == bitsOf(scalar::cast<T>(true)); });
}

/// fn(x, c) is x, bit for bit but for NaN's payload. An FP8 product saturates an infinity, so 1 is no
/// identity there.
bool isRightIdentity(BinaryFn fn, const Constant &c) {
  bool isFp8 = c.dtype == DType::e4m3 || c.dtype == DType::e5m2;
  switch (fn) {
  case BinaryFn::k_add:
  case BinaryFn::k_sub:
    return !isFloat(c.dtype) && isZero(c);
  case BinaryFn::k_bitor:
  case BinaryFn::k_bitxor:
  case BinaryFn::k_shl:
  case BinaryFn::k_shr:
    return isZero(c);
  case BinaryFn::k_mul:
  case BinaryFn::k_div:
    return !isFp8 && isOne(c);
  case BinaryFn::k_floordiv:
    return isOne(c);
  case BinaryFn::k_bitand:
    return c.dtype == DType::boolean ? isOne(c) : visit(c, []<class T>(T x) {
      if constexpr (scalar::IntElement<T>)
        return T(~x) == T(0);
      else
        return false;
    });
  default:
    return false;
  }
}

bool isCommutative(BinaryFn fn) {
  switch (fn) {
  case BinaryFn::k_add:
  case BinaryFn::k_mul:
  case BinaryFn::k_bitand:
  case BinaryFn::k_bitor:
  case BinaryFn::k_bitxor:
    return true;
  default:
    return false;
  }
}

int precisionBits(DType t) {
  switch (t) {
  case DType::f64:
    return 53;
  case DType::f32:
    return 24;
  case DType::f16:
    return 11;
  case DType::bf16:
    return 8;
  case DType::e4m3:
    return 4;
  case DType::e5m2:
    return 3;
  default:
    return int(byteSize(t)) * 8;
  }
}

/// Every value of `from`, infinities and NaN too, is a value of `to`.
bool isExactWidening(DType from, DType to) {
  if (!isFloat(from) || !isFloat(to))
    return false;
  switch (to) {
  case DType::f64:
    return from != DType::f64;
  case DType::f32:
    return from != DType::f64 && from != DType::f32;
  case DType::f16:
  case DType::bf16:
    return from == DType::e4m3 || from == DType::e5m2;
  default:
    return false;
  }
}

/// cast<to>(cast<via>(x)) is cast<to>(x) for every x of `from`.
bool castsCompose(DType from, DType via, DType to) {
  if (isExactWidening(from, via)) // an infinity that comes back to e5m2 saturates, x would not
    return to != from || from != DType::e5m2;
  bool integers = isInt(from) && isInt(via) && isInt(to);
  return integers && (precisionBits(via) >= precisionBits(to) || // only low bits count
                      (precisionBits(via) >= precisionBits(from) && isSignedInt(from) == isSignedInt(via)));
}

} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult UnaryOp::fold(FoldAdaptor adaptor) {
  auto x = constantOf(adaptor.getX());
  if (getFn() == UnaryFn::k_bits) {
    if (getX().getType() == getType())
      return getX();
    DType to = *dtypeOfType(elementOf(getType()));
    return x ? OpFoldResult(attributeOf({to, x->bits & (~uint64_t(0) >> (64 - usedBits(to)))}, getType())) : OpFoldResult();
  }
  if (!x)
    return {};
  auto result = visit(*x, [&]<class T>(T value) { return compute(getFn(), x->dtype, value); });
  return result ? OpFoldResult(attributeOf(*result, getType())) : OpFoldResult();
}

OpFoldResult BinaryOp::fold(FoldAdaptor adaptor) {
  auto a = constantOf(adaptor.getA()), b = constantOf(adaptor.getB());
  if (a && b) {
    auto result =
        visit(*a, [&]<class T>(T value) { return compute(getFn(), a->dtype, value, valueOf<T>(b->bits)); });
    return result ? OpFoldResult(attributeOf(*result, getType())) : OpFoldResult();
  }
  if (b && isRightIdentity(getFn(), *b))
    return getA();
  if (a && isCommutative(getFn()) && isRightIdentity(getFn(), *a))
    return getB();
  return {};
}

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  auto a = constantOf(adaptor.getA()), b = constantOf(adaptor.getB());
  if (!a || !b)
    return {};
  bool holds = visit(*a, [&]<class T>(T value) { return compute(getPred(), value, valueOf<T>(b->bits)); });
  return attributeOf(make(DType::boolean, holds), getType());
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  auto cond = constantOf(adaptor.getCond());
  if (cond) {
    Value kept = cond->bits ? getA() : getB(), dropped = cond->bits ? getB() : getA();
    return allLanesExist(dropped) ? OpFoldResult(kept) : OpFoldResult();
  }
  if (getA() == getB() && allLanesExist(getCond()))
    return getA();
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  DType to = *dtypeOfType(elementOf(getType()));
  if (auto x = constantOf(adaptor.getX())) {
    uint64_t bits = visitAny(*x, [&]<class From>(From value) {
      return scalar::visitAnyDType(
          to, [&]<class To>(std::type_identity<To>) { return bitsOf(scalar::cast<To>(value)); });
    });
    return attributeOf({to, bits}, getType());
  }
  auto inner = getX().getDefiningOp<CastOp>();
  if (!inner)
    return {};
  DType from = *dtypeOfType(elementOf(inner.getX().getType())),
        via = *dtypeOfType(elementOf(inner.getType()));
  if (!castsCompose(from, via, to))
    return {};
  if (inner.getX().getType() == getType())
    return inner.getX();
  getXMutable().assign(inner.getX());
  return getResult();
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  auto x = constantOf(adaptor.getX());
  return x ? OpFoldResult(attributeOf(*x, getType())) : OpFoldResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  auto x = constantOf(adaptor.getX());
  return x ? OpFoldResult(attributeOf(*x, getType())) : OpFoldResult();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  auto x = constantOf(adaptor.getX());
  return x ? OpFoldResult(attributeOf(*x, getType())) : OpFoldResult();
}

OpFoldResult PermuteOp::fold(FoldAdaptor adaptor) {
  if (auto x = constantOf(adaptor.getX()))
    return attributeOf(*x, getType());
  auto perm = getPerm();
  if (getX().getType() == getType() && llvm::equal(perm, llvm::seq<int64_t>(0, int64_t(perm.size()))))
    return getX();
  auto inner = getX().getDefiningOp<PermuteOp>();
  if (!inner)
    return {};
  llvm::SmallVector<int64_t> composed;
  for (int64_t axis : perm)
    composed.push_back(inner.getPerm()[axis]);
  getXMutable().assign(inner.getX());
  setPerm(composed);
  return getResult();
}

} // namespace sectile::tileir
