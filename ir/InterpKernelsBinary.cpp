// SPDX-License-Identifier: Apache-2.0
/// \file Elementwise functions of two tiles, comparisons and choice.
#include "ir/InterpEnums.h"
#include "ir/InterpSimd.h"

namespace sectile::tileir::interp {
namespace {

// One struct per function: `apply` on the types it takes directly; `simd` if two builds are worth it.
#define SECTILE_BINARY(NAME, SIMD, EXPR)                                                                     \
  struct NAME {                                                                                              \
    static constexpr bool simd = SIMD;                                                                       \
    template <class T> static SECTILE_INLINE T apply(T x, T y) { return EXPR; }                              \
  };
SECTILE_BINARY(Add, true, detail::add(x, y))
SECTILE_BINARY(Sub, true, detail::sub(x, y))
SECTILE_BINARY(Mul, true, detail::mul(x, y))
SECTILE_BINARY(Div, true, detail::div(x, y))
SECTILE_BINARY(Rem, false, detail::rem(x, y))
SECTILE_BINARY(FloorDiv, false, detail::floorDiv(x, y))
SECTILE_BINARY(FloorMod, false, detail::floorMod(x, y))
SECTILE_BINARY(Shl, true, detail::shl(x, y))
SECTILE_BINARY(Shr, true, detail::shr(x, y))
SECTILE_BINARY(And, true, T(x &y))
SECTILE_BINARY(Or, true, T(x | y))
SECTILE_BINARY(Xor, true, T(x ^ y))
#undef SECTILE_BINARY

template <class T> inline constexpr bool hardFloat = std::same_as<T, float> || std::same_as<T, double>;

#define SECTILE_MINMAX(NAME, FLOAT, SCALAR)                                                                  \
  struct NAME {                                                                                              \
    static constexpr bool simd = true;                                                                       \
    template <class T> static SECTILE_INLINE T apply(T x, T y) {                                             \
      if constexpr (hardFloat<T>)                                                                            \
        return FLOAT(x, y);                                                                                  \
      else                                                                                                   \
        return SCALAR(x, y);                                                                                 \
    }                                                                                                        \
  };
SECTILE_MINMAX(Max, maxFloat, detail::max)
SECTILE_MINMAX(Min, minFloat, detail::min)
SECTILE_MINMAX(MaxNum, maxNumFloat, detail::maxNum)
SECTILE_MINMAX(MinNum, minNumFloat, detail::minNum)
#undef SECTILE_MINMAX

/// f32: in double, rounded once.
struct Pow {
  static constexpr bool simd = false;
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return T(std::pow(double(x), double(y))); }
};

template <class Op, class T> struct DirectBinary {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, const void *b, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a), *y = static_cast<const T *>(b);
    T *out = static_cast<T *>(r);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = Op::template apply<T>(x[i], y[i]);
  }
};

/// Small floats by way of f32. A product or quotient of two bf16 may be a subnormal of f32, where that would
/// round twice: such lanes are computed again.
template <class Op, class T> struct BlockBinary {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, const void *b, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a), *y = static_cast<const T *>(b);
    T *out = static_cast<T *>(r);
    alignas(64) float fx[blockLanes], fy[blockLanes], fr[blockLanes];
    for (std::int64_t at = 0; at < n; at += blockLanes) {
      std::int64_t count = n - at < blockLanes ? n - at : blockLanes;
      decode<isa>(x + at, fx, count);
      decode<isa>(y + at, fy, count);
      for (std::int64_t i = 0; i < count; ++i)
        fr[i] = Op::template apply<float>(fx[i], fy[i]);
      if constexpr (std::same_as<T, bf16> && (std::same_as<Op, Mul> || std::same_as<Op, Div>)) {
        int tiny = 0;
        for (std::int64_t i = 0; i < count; ++i)
          tiny |= (std::abs(fr[i]) < 0x1p-126f) & (fx[i] != 0.0f) & (std::same_as<Op, Div> || fy[i] != 0.0f);
        T saved[blockLanes];
        if (tiny)
          for (std::int64_t i = 0; i < count; ++i)
            saved[i] =
                std::same_as<Op, Mul> ? detail::mul(x[at + i], y[at + i]) : detail::div(x[at + i], y[at + i]);
        encode<isa>(fr, out + at, count);
        if (tiny)
          for (std::int64_t i = 0; i < count; ++i)
            if (std::abs(fr[i]) < 0x1p-126f)
              out[at + i] = saved[i];
      } else {
        encode<isa>(fr, out + at, count);
      }
    }
  }
};

template <class Op, class T> BinaryKernel build(Isa isa) {
  if constexpr (!Op::simd)
    isa = Isa::base;
  // max and min of fp8 choose a lane as it is: infinities of e5m2 do not saturate.
  constexpr bool chooses =
      std::same_as<Op, Max> || std::same_as<Op, Min> || std::same_as<Op, MaxNum> || std::same_as<Op, MinNum>;
  if constexpr (detail::SmallFloat<T> && !(chooses && sizeof(T) == 1))
    return pick<BlockBinary<Op, T>, BinaryKernel>(isa);
  else if constexpr (detail::SmallFloat<T>)
    return pick<DirectBinary<Op, T>, BinaryKernel>(Isa::base);
  else
    return pick<DirectBinary<Op, T>, BinaryKernel>(isa);
}

template <class Op> BinaryKernel forNumbers(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> BinaryKernel {
    if constexpr (std::same_as<T, bool>)
      return nullptr;
    else
      return build<Op, T>(isa);
  });
}
template <class Op> BinaryKernel forFloats(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> BinaryKernel {
    if constexpr (detail::FloatElement<T>)
      return build<Op, T>(isa);
    else
      return nullptr;
  });
}
template <class Op> BinaryKernel forInts(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> BinaryKernel {
    if constexpr (detail::IntElement<T>)
      return build<Op, T>(isa);
    else
      return nullptr;
  });
}
/// Truth values are bytes of 0 and 1.
template <class Op> BinaryKernel forBool(Isa isa) {
  return pick<DirectBinary<Op, std::uint8_t>, BinaryKernel>(isa);
}

template <ComparePred pred, class T> SECTILE_INLINE bool holds(T x, T y) {
  if constexpr (pred == ComparePred::k_eq)
    return x == y;
  else if constexpr (pred == ComparePred::k_ne)
    return x != y;
  else if constexpr (pred == ComparePred::k_lt)
    return x < y;
  else if constexpr (pred == ComparePred::k_le)
    return x <= y;
  else if constexpr (pred == ComparePred::k_gt)
    return x > y;
  else
    return x >= y;
}

template <ComparePred pred, class T> struct Compare {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, const void *b, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a), *y = static_cast<const T *>(b);
    std::uint8_t *out = static_cast<std::uint8_t *>(r);
    if constexpr (detail::SmallFloat<T>) {
      alignas(64) float fx[blockLanes], fy[blockLanes];
      for (std::int64_t at = 0; at < n; at += blockLanes) {
        std::int64_t count = n - at < blockLanes ? n - at : blockLanes;
        decode<isa>(x + at, fx, count);
        decode<isa>(y + at, fy, count);
        for (std::int64_t i = 0; i < count; ++i)
          out[at + i] = holds<pred>(fx[i], fy[i]);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = holds<pred>(x[i], y[i]);
    }
  }
};

template <ComparePred pred> BinaryKernel compareFor(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> BinaryKernel {
    using Lane = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;
    return pick<Compare<pred, Lane>, BinaryKernel>(isa);
  });
}

template <class T> struct Fma {
  template <Isa isa>
  static SECTILE_INLINE void run(const void *a, const void *b, const void *c, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a), *y = static_cast<const T *>(b), *z = static_cast<const T *>(c);
    T *out = static_cast<T *>(r);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = std::fma(x[i], y[i], z[i]);
  }
};

template <class T> struct Select {
  template <Isa isa>
  static SECTILE_INLINE void run(const bool *c, const void *a, const void *b, void *r, std::int64_t n) {
    const std::uint8_t *cond = reinterpret_cast<const std::uint8_t *>(c);
    const T *x = static_cast<const T *>(a), *y = static_cast<const T *>(b);
    T *out = static_cast<T *>(r);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      T u = x[i], v = y[i];
      out[i] = cond[i] ? u : v;
    }
  }
};

} // namespace

BinaryKernel binaryKernel(BinaryFn fn, DType type, Isa isa) {
  bool truth = type == DType::boolean;
  switch (fn) {
  case BinaryFn::k_add:
    return truth ? forBool<Or>(isa) : forNumbers<Add>(type, isa);
  case BinaryFn::k_sub:
    return forNumbers<Sub>(type, isa);
  case BinaryFn::k_mul:
    return truth ? forBool<And>(isa) : forNumbers<Mul>(type, isa);
  case BinaryFn::k_div:
    return forNumbers<Div>(type, isa);
  case BinaryFn::k_rem:
    return forNumbers<Rem>(type, isa);
  case BinaryFn::k_floordiv:
    return forInts<FloorDiv>(type, isa);
  case BinaryFn::k_floormod:
    return forInts<FloorMod>(type, isa);
  case BinaryFn::k_max:
    return truth ? forBool<Or>(isa) : forNumbers<Max>(type, isa);
  case BinaryFn::k_min:
    return truth ? forBool<And>(isa) : forNumbers<Min>(type, isa);
  case BinaryFn::k_maxnum:
    return forNumbers<MaxNum>(type, isa);
  case BinaryFn::k_minnum:
    return forNumbers<MinNum>(type, isa);
  case BinaryFn::k_bitand:
    return truth ? forBool<And>(isa) : forInts<And>(type, isa);
  case BinaryFn::k_bitor:
    return truth ? forBool<Or>(isa) : forInts<Or>(type, isa);
  case BinaryFn::k_bitxor:
    return truth ? forBool<Xor>(isa) : forInts<Xor>(type, isa);
  case BinaryFn::k_shl:
    return forInts<Shl>(type, isa);
  case BinaryFn::k_shr:
    return forInts<Shr>(type, isa);
  case BinaryFn::k_pow:
    return forFloats<Pow>(type, isa);
  }
  return nullptr;
}

BinaryKernel compareKernel(ComparePred pred, DType type, Isa isa) {
  switch (pred) {
  case ComparePred::k_eq:
    return compareFor<ComparePred::k_eq>(type, isa);
  case ComparePred::k_ne:
    return compareFor<ComparePred::k_ne>(type, isa);
  case ComparePred::k_lt:
    return compareFor<ComparePred::k_lt>(type, isa);
  case ComparePred::k_le:
    return compareFor<ComparePred::k_le>(type, isa);
  case ComparePred::k_gt:
    return compareFor<ComparePred::k_gt>(type, isa);
  case ComparePred::k_ge:
    return compareFor<ComparePred::k_ge>(type, isa);
  }
  return nullptr;
}

FmaKernel fmaKernel(DType type, Isa isa) {
  if (type == DType::f32)
    return pick<Fma<float>, FmaKernel>(isa);
  return type == DType::f64 ? pick<Fma<double>, FmaKernel>(isa) : nullptr;
}

SelectKernel selectKernel(DType type, Isa isa) {
  switch (byteSize(type)) {
  case 1:
    return pick<Select<std::uint8_t>, SelectKernel>(isa);
  case 2:
    return pick<Select<std::uint16_t>, SelectKernel>(isa);
  case 4:
    return pick<Select<std::uint32_t>, SelectKernel>(isa);
  default:
    return pick<Select<std::uint64_t>, SelectKernel>(isa);
  }
}

} // namespace sectile::tileir::interp
