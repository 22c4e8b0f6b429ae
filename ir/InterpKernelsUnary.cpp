// SPDX-License-Identifier: Apache-2.0
/// \file Elementwise functions of one tile.
#include "ir/InterpEnums.h"
#include "ir/InterpSimd.h"

namespace sectile::tileir::interp {
namespace {

// `apply` on f32 and f64. The functions the hardware does not round correctly go through double.
#define SECTILE_UNARY(NAME, SIMD, EXPR)                                                                      \
  struct NAME {                                                                                              \
    static constexpr bool simd = SIMD;                                                                       \
    template <class T> static SECTILE_INLINE T apply(T x) { return T(EXPR); }                                \
  };
SECTILE_UNARY(Exp, false, std::exp(double(x)))
SECTILE_UNARY(Exp2, false, std::exp2(double(x)))
SECTILE_UNARY(Log, false, std::log(double(x)))
SECTILE_UNARY(Log2, false, std::log2(double(x)))
SECTILE_UNARY(Sqrt, true, std::sqrt(x))
SECTILE_UNARY(Rsqrt, true, 1.0 / std::sqrt(double(x)))
SECTILE_UNARY(Sin, false, std::sin(double(x)))
SECTILE_UNARY(Cos, false, std::cos(double(x)))
SECTILE_UNARY(Tanh, false, std::tanh(double(x)))
SECTILE_UNARY(Erf, false, std::erf(double(x)))
SECTILE_UNARY(Sigmoid, false, 1.0 / (1.0 + std::exp(-double(x))))
SECTILE_UNARY(Floor, false, std::floor(x))
SECTILE_UNARY(Ceil, false, std::ceil(x))
SECTILE_UNARY(Round, false, std::nearbyint(x))
SECTILE_UNARY(Trunc, false, std::trunc(x))
#undef SECTILE_UNARY

template <class Op, class T> struct DirectUnary {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a);
    T *out = static_cast<T *>(r);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = Op::template apply<T>(x[i]);
  }
};

template <class Op, class T> struct BlockUnary {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a);
    T *out = static_cast<T *>(r);
    alignas(64) float f[blockLanes];
    for (std::int64_t at = 0; at < n; at += blockLanes) {
      std::int64_t count = n - at < blockLanes ? n - at : blockLanes;
      decode<isa>(x + at, f, count);
      for (std::int64_t i = 0; i < count; ++i)
        f[i] = Op::template apply<float>(f[i]);
      encode<isa>(f, out + at, count);
    }
  }
};

template <class Op> UnaryKernel forFloats(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> UnaryKernel {
    if constexpr (detail::SmallFloat<T>)
      return pick<BlockUnary<Op, T>, UnaryKernel>(isa);
    else if constexpr (detail::FloatElement<T>)
      return pick<DirectUnary<Op, T>, UnaryKernel>(Op::simd ? isa : Isa::base);
    else
      return nullptr;
  });
}

struct Neg {
  template <class T> static SECTILE_INLINE T apply(T x) { return detail::neg(x); }
};
struct Abs {
  template <class T> static SECTILE_INLINE T apply(T x) { return detail::abs(x); }
};
template <class Op> UnaryKernel forNumbers(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> UnaryKernel {
    if constexpr (std::same_as<T, bool>)
      return nullptr;
    else
      return pick<DirectUnary<Op, T>, UnaryKernel>(isa);
  });
}

struct BitNot {
  template <class T> static SECTILE_INLINE T apply(T x) { return T(~x); }
};
struct TruthNot {
  template <class T> static SECTILE_INLINE T apply(T x) { return x ^ 1; }
};
UnaryKernel bitnot(DType type, Isa isa) {
  if (type == DType::boolean)
    return pick<DirectUnary<TruthNot, std::uint8_t>, UnaryKernel>(isa);
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> UnaryKernel {
    if constexpr (detail::IntElement<T>)
      return pick<DirectUnary<BitNot, T>, UnaryKernel>(isa);
    else
      return nullptr;
  });
}

/// isnan and isinf look at the bits: `magnitude` without the sign, against the code of infinity.
template <class T, bool nan> struct Classify {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    using Bits = BitsOf<T>;
    constexpr Bits sign = Bits(Bits(1) << (sizeof(T) * 8 - 1));
    constexpr Bits infinity = std::same_as<T, double>  ? Bits(0x7ff0000000000000)
                              : std::same_as<T, float> ? Bits(0x7f800000)
                              : std::same_as<T, f16>   ? Bits(0x7c00)
                              : std::same_as<T, bf16>  ? Bits(0x7f80)
                              : std::same_as<T, e5m2>  ? Bits(0x7c)
                                                       : Bits(0x7e); // e4m3: the largest finite code
    constexpr bool hasInfinity = !std::same_as<T, e4m3>;
    const T *x = static_cast<const T *>(a);
    std::uint8_t *out = static_cast<std::uint8_t *>(r);
    for (std::int64_t i = 0; i < n; ++i) {
      Bits magnitude;
      std::memcpy(&magnitude, x + i, sizeof(T));
      magnitude = Bits(magnitude & ~sign);
      out[i] = nan ? magnitude > infinity : hasInfinity && magnitude == infinity;
    }
  }
};
template <bool nan> UnaryKernel classify(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> UnaryKernel {
    if constexpr (detail::FloatElement<T>)
      return pick<Classify<T, nan>, UnaryKernel>(isa);
    else
      return nullptr;
  });
}

} // namespace

UnaryKernel unaryKernel(UnaryFn fn, DType type, Isa isa) {
  switch (fn) {
  case UnaryFn::k_neg:
    return forNumbers<Neg>(type, isa);
  case UnaryFn::k_abs:
    return forNumbers<Abs>(type, isa);
  case UnaryFn::k_exp:
    return forFloats<Exp>(type, isa);
  case UnaryFn::k_exp2:
    return forFloats<Exp2>(type, isa);
  case UnaryFn::k_log:
    return forFloats<Log>(type, isa);
  case UnaryFn::k_log2:
    return forFloats<Log2>(type, isa);
  case UnaryFn::k_sqrt:
    return forFloats<Sqrt>(type, isa);
  case UnaryFn::k_rsqrt:
    return forFloats<Rsqrt>(type, isa);
  case UnaryFn::k_sin:
    return forFloats<Sin>(type, isa);
  case UnaryFn::k_cos:
    return forFloats<Cos>(type, isa);
  case UnaryFn::k_tanh:
    return forFloats<Tanh>(type, isa);
  case UnaryFn::k_erf:
    return forFloats<Erf>(type, isa);
  case UnaryFn::k_sigmoid:
    return forFloats<Sigmoid>(type, isa);
  case UnaryFn::k_floor:
    return forFloats<Floor>(type, isa);
  case UnaryFn::k_ceil:
    return forFloats<Ceil>(type, isa);
  case UnaryFn::k_round:
    return forFloats<Round>(type, isa);
  case UnaryFn::k_trunc:
    return forFloats<Trunc>(type, isa);
  case UnaryFn::k_bitnot:
    return bitnot(type, isa);
  case UnaryFn::k_isnan:
    return classify<true>(type, isa);
  case UnaryFn::k_isinf:
    return classify<false>(type, isa);
  }
  return nullptr;
}

} // namespace sectile::tileir::interp
