// SPDX-License-Identifier: Apache-2.0
/// \file The meaning of every scalar operation, on host types. The interpreter and the constant folders
/// call these, so constants, scalars and tiles agree. Every function is total: no undefined result, no
/// trap.
///
/// Integers (two's complement, 8 to 64 bits; the index type counts as i64):
/// - add, sub, mul, neg, abs wrap around;
/// - div truncates toward zero, floorDiv rounds down, ceilDiv up; x / 0 = 0 for all three, MIN / -1 = MIN;
/// - rem belongs to div (sign of x), floorMod to floorDiv (sign of y); x rem 0 = x mod 0 = x, MIN rem -1 = 0;
///   so x = q * y + r always holds (wrapping);
/// - shl, shr: a count past the width, or a negative one, shifts everything out: 0, or the sign for shr of
///   a signed value. shr of a signed value keeps the sign.
///
/// Floats: add, sub, mul, div, fma, sqrt round once to nearest even in the type's own format (for f16, bf16
/// and fp8 the result is as if computed exactly, then rounded as in DType.h, so fp8 saturates).
/// - max, min: NaN if either is NaN; -0 < +0.
/// - maxNum, minNum: the other one if one is NaN, NaN if both are; -0 < +0.
///
/// Booleans: add is or, mul is and; max is or, min is and.
///
/// cast<To>(x):
/// - float -> float: one rounding to nearest even, as in DType.h;
/// - float -> int: toward zero, saturating at the limits of To; NaN -> 0;
/// - int -> float: one rounding to nearest even; f16 overflows to infinity, fp8 saturates;
/// - int -> int: wraps (keeps the low bits, sign- or zero-extends as From is signed or not);
/// - any -> bool: x != 0 (so NaN -> true); bool -> any: 0 or 1;
/// - from types of storage as from f32, which holds all their values; to them one rounding, as in DType.h.
#pragma once

#include <sectile/DType.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

namespace sectile::detail {

template <class T>
concept SmallFloat =
    std::same_as<T, f16> || std::same_as<T, bf16> || std::same_as<T, e4m3> || std::same_as<T, e5m2>;
/// Converted, never computed with.
template <class T>
concept StorageFloat =
    std::same_as<T, e2m1> || std::same_as<T, e2m3> || std::same_as<T, e3m2> || std::same_as<T, ue8m0>;
template <class T>
concept FloatElement = SmallFloat<T> || std::same_as<T, f32> || std::same_as<T, f64>;
template <class T>
concept IntElement = std::integral<T> && !std::same_as<T, bool>;

/// Calls f(std::type_identity<T>{}) with the host type of `t`, a type that is computed with; the index type is i64.
template <class F> decltype(auto) visitDType(DType t, F &&f) {
  switch (t) {
  case DType::f64: return f(std::type_identity<f64>{});
  case DType::f32: return f(std::type_identity<f32>{});
  case DType::f16: return f(std::type_identity<f16>{});
  case DType::bf16: return f(std::type_identity<bf16>{});
  case DType::e4m3: return f(std::type_identity<e4m3>{});
  case DType::e5m2: return f(std::type_identity<e5m2>{});
  case DType::i8: return f(std::type_identity<i8>{});
  case DType::i16: return f(std::type_identity<i16>{});
  case DType::i32: return f(std::type_identity<i32>{});
  case DType::u8: return f(std::type_identity<u8>{});
  case DType::u16: return f(std::type_identity<u16>{});
  case DType::u32: return f(std::type_identity<u32>{});
  case DType::u64: return f(std::type_identity<u64>{});
  case DType::boolean: return f(std::type_identity<bool>{});
  case DType::i64:
  case DType::index:
  case DType::e2m1:
  case DType::e2m3:
  case DType::e3m2:
  case DType::ue8m0: break;
  }
  return f(std::type_identity<i64>{});
}
/// The same for all types, those of storage, too.
template <class F> decltype(auto) visitAnyDType(DType t, F &&f) {
  switch (t) {
  case DType::e2m1: return f(std::type_identity<e2m1>{});
  case DType::e2m3: return f(std::type_identity<e2m3>{});
  case DType::e3m2: return f(std::type_identity<e3m2>{});
  case DType::ue8m0: return f(std::type_identity<ue8m0>{});
  default: return visitDType(t, std::forward<F>(f));
  }
}

// --- casts ----------------------------------------------------------------------------------------

/// `v` as a double, inexact ones with the last bit set ("round to odd"): rounding the result to any format
/// of at most 51 bits of precision gives what rounding `v` would.
template <IntElement T> double oddDouble(T v) {
  bool negative = v < T(0);
  u64 magnitude = negative ? u64(0) - u64(i64(v)) : u64(v);
  int excess = 64 - std::countl_zero(magnitude) - 53;
  if (excess > 0) {
    bool sticky = (magnitude & ((u64(1) << excess) - 1)) != 0;
    magnitude = ((magnitude >> excess) | u64(sticky)) << excess;
  }
  double d = double(magnitude);
  return negative ? -d : d;
}

template <class To, class From> To cast(From x) {
  if constexpr (std::same_as<To, From>) {
    return x;
  } else if constexpr (StorageFloat<From>) { // exact in f32
    return cast<To>(float(x));
  } else if constexpr (StorageFloat<To>) {
    if constexpr (IntElement<From>)
      return To(oddDouble(x));
    else if constexpr (std::same_as<From, bool>)
      return To(int(x));
    else
      return To(double(x));
  } else if constexpr (std::same_as<To, bool>) {
    if constexpr (SmallFloat<From>)
      return float(x) != 0.0f;
    else
      return x != From(0);
  } else if constexpr (std::same_as<From, bool>) {
    return To(int(x));
  } else if constexpr (FloatElement<To> && FloatElement<From>) {
    if constexpr (SmallFloat<From>)
      return To(float(x));
    else
      return To(x);
  } else if constexpr (FloatElement<To>) {
    if constexpr (SmallFloat<To>)
      return To(oddDouble(x));
    else
      return static_cast<To>(x);
  } else if constexpr (FloatElement<From>) {
    double d;
    if constexpr (SmallFloat<From>)
      d = double(float(x));
    else
      d = double(x);
    if (d != d)
      return To(0);
    // Both limits are exact as doubles: min, and one past max.
    constexpr double low = double(std::numeric_limits<To>::min());
    constexpr double pastHigh = 2.0 * double(u64(1) << (std::numeric_limits<To>::digits - 1));
    if (d >= pastHigh)
      return std::numeric_limits<To>::max();
    if (d <= low)
      return std::numeric_limits<To>::min();
    return static_cast<To>(d);
  } else {
    return static_cast<To>(x);
  }
}

// --- integer arithmetic ---------------------------------------------------------------------------

template <IntElement T> T addInt(T x, T y) { return T(u64(x) + u64(y)); }
template <IntElement T> T subInt(T x, T y) { return T(u64(x) - u64(y)); }
template <IntElement T> T mulInt(T x, T y) { return T(u64(x) * u64(y)); }

template <IntElement T> T divInt(T x, T y) {
  if (y == 0)
    return 0;
  if constexpr (std::is_signed_v<T>)
    if (y == T(-1))
      return subInt(T(0), x);
  return T(x / y);
}
template <IntElement T> T remInt(T x, T y) {
  if (y == 0)
    return x;
  if constexpr (std::is_signed_v<T>)
    if (y == T(-1))
      return 0;
  return T(x % y);
}
template <IntElement T> T floorDiv(T x, T y) {
  T q = divInt(x, y), r = remInt(x, y);
  return y != 0 && r != 0 && (r < 0) != (y < 0) ? T(q - 1) : q;
}
template <IntElement T> T floorMod(T x, T y) {
  T r = remInt(x, y);
  return y != 0 && r != 0 && (r < 0) != (y < 0) ? T(r + y) : r;
}
template <IntElement T> T ceilDiv(T x, T y) {
  T q = divInt(x, y), r = remInt(x, y);
  return y != 0 && r != 0 && (r < 0) == (y < 0) ? T(q + 1) : q;
}

template <IntElement T> T shl(T x, T count) {
  constexpr u64 width = sizeof(T) * 8;
  return u64(count) >= width ? T(0) : T(u64(x) << u64(count));
}
template <IntElement T> T shr(T x, T count) {
  constexpr u64 width = sizeof(T) * 8;
  if (u64(count) >= width)
    return x < T(0) ? T(-1) : T(0);
  return T(x >> int(count));
}

// --- float helpers --------------------------------------------------------------------------------

/// x * y + z for operands whose product is exact in double; "round to odd", see oddDouble.
inline double oddFma(double x, double y, double z) {
  double p = x * y, s = p + z;
  if (!std::isfinite(s))
    return s;
  double bb = s - p, err = (p - (s - bb)) + (z - bb); // s + err == p + z exactly
  if (err != 0 && !(std::bit_cast<u64>(s) & 1))
    s = std::nextafter(s, err > 0 ? std::numeric_limits<double>::infinity()
                                  : -std::numeric_limits<double>::infinity());
  return s;
}

/// True if x comes before y where -0 < +0. @pre no NaN
template <class T> bool lessTotal(T x, T y) {
  return x < y || (x == y && std::signbit(x) && !std::signbit(y));
}

template <FloatElement T> bool isNan(T x) {
  if constexpr (SmallFloat<T>)
    return std::isnan(float(x));
  else
    return std::isnan(x);
}
template <FloatElement T> T quietNan() {
  if constexpr (SmallFloat<T>)
    return T(std::numeric_limits<float>::quiet_NaN());
  else
    return std::numeric_limits<T>::quiet_NaN();
}
/// The type in which +, -, *, /, sqrt are computed before the one rounding to T. Double has more than twice
/// the precision of the small formats (Figueroa 1995) and reaches far below them, so the rounding to it
/// does no harm.
template <class T> using Wide = std::conditional_t<SmallFloat<T>, double, T>;

// --- one name per operation, for every type it exists for -----------------------------------------

template <class T> T add(T x, T y) {
  if constexpr (std::same_as<T, bool>)
    return x || y;
  else if constexpr (IntElement<T>)
    return addInt(x, y);
  else
    return T(Wide<T>(x) + Wide<T>(y));
}
template <class T> T sub(T x, T y) {
  if constexpr (IntElement<T>)
    return subInt(x, y);
  else
    return T(Wide<T>(x) - Wide<T>(y));
}
template <class T> T mul(T x, T y) {
  if constexpr (std::same_as<T, bool>)
    return x && y;
  else if constexpr (IntElement<T>)
    return mulInt(x, y);
  else
    return T(Wide<T>(x) * Wide<T>(y));
}
/// Integers: toward zero, x / 0 = 0.
template <class T> T div(T x, T y) {
  if constexpr (IntElement<T>)
    return divInt(x, y);
  else
    return T(Wide<T>(x) / Wide<T>(y));
}
/// Floats: C's fmod (sign of x), exact.
template <class T> T rem(T x, T y) {
  if constexpr (IntElement<T>)
    return remInt(x, y);
  else
    return T(std::fmod(Wide<T>(x), Wide<T>(y)));
}
/// x * y + z with one rounding.
template <FloatElement T> T fma(T x, T y, T z) {
  if constexpr (SmallFloat<T>)
    return T(oddFma(float(x), float(y), float(z)));
  else
    return std::fma(x, y, z);
}
template <FloatElement T> T sqrt(T x) { return T(std::sqrt(Wide<T>(x))); }

template <class T> T neg(T x) {
  if constexpr (IntElement<T>)
    return subInt(T(0), x);
  else if constexpr (SmallFloat<T>)
    return T::fromBits(decltype(x.bits)(x.bits ^ (1u << (sizeof(T) * 8 - 1))));
  else
    return -x;
}
template <class T> T abs(T x) {
  if constexpr (IntElement<T>)
    return x < T(0) ? subInt(T(0), x) : x;
  else if constexpr (SmallFloat<T>)
    return T::fromBits(decltype(x.bits)(x.bits & ((1u << (sizeof(T) * 8 - 1)) - 1)));
  else
    return std::abs(x);
}

template <class T> T max(T x, T y) {
  if constexpr (FloatElement<T>) {
    if (isNan(x) || isNan(y))
      return quietNan<T>();
    return lessTotal(Wide<T>(x), Wide<T>(y)) ? y : x;
  } else {
    return x < y ? y : x;
  }
}
template <class T> T min(T x, T y) {
  if constexpr (FloatElement<T>) {
    if (isNan(x) || isNan(y))
      return quietNan<T>();
    return lessTotal(Wide<T>(y), Wide<T>(x)) ? y : x;
  } else {
    return y < x ? y : x;
  }
}
template <class T> T maxNum(T x, T y) {
  if constexpr (FloatElement<T>)
    if (isNan(x) || isNan(y))
      return isNan(x) ? (isNan(y) ? quietNan<T>() : y) : x;
  return max(x, y);
}
template <class T> T minNum(T x, T y) {
  if constexpr (FloatElement<T>)
    if (isNan(x) || isNan(y))
      return isNan(x) ? (isNan(y) ? quietNan<T>() : y) : x;
  return min(x, y);
}

} // namespace sectile::detail
