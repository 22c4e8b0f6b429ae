// SPDX-License-Identifier: Apache-2.0
/// \file How one loop body becomes two builds, and the conversions between f32 and the small floats in
/// blocks.
#pragma once

#include "ir/InterpKernels.h"
#include "ir/base/Scalar.h"

#include <cstring>

// Bodies are inlined whole into a function with the wider instruction set; nothing shared is compiled for it.
#define SECTILE_V3 __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt"), flatten))
#define SECTILE_INLINE __attribute__((always_inline)) inline

namespace sectile::tileir::interp {

/// The two builds of Body::run, which must be SECTILE_INLINE and static.
template <class Body, class... Args> SECTILE_V3 void runV3(Args... args) {
  Body::template run<Isa::v3>(args...);
}
template <class Body, class... Args> void runBase(Args... args) { Body::template run<Isa::base>(args...); }

/// The build of Body for `isa` with the signature Kernel.
template <class Body, class... Args> auto pick(Isa isa, void (*)(Args...)) -> void (*)(Args...) {
  return isa == Isa::v3 ? runV3<Body, Args...> : runBase<Body, Args...>;
}
template <class Body, class Kernel> Kernel pick(Isa isa) { return pick<Body>(isa, Kernel(nullptr)); }

/// Lanes handled at a time where small floats pass through f32 on the stack.
inline constexpr std::int64_t blockLanes = 256;

void decodeF16Base(const f16 *x, float *r, std::int64_t n);
void decodeF16V3(const f16 *x, float *r, std::int64_t n);
void encodeF16Base(const float *x, f16 *r, std::int64_t n);
void encodeF16V3(const float *x, f16 *r, std::int64_t n);

template <Isa isa, class T> SECTILE_INLINE void decode(const T *x, float *r, std::int64_t n) {
  if constexpr (std::same_as<T, f16>) {
    if constexpr (isa == Isa::v3)
      decodeF16V3(x, r, n);
    else
      decodeF16Base(x, r, n);
  } else if constexpr (std::same_as<T, float>) {
    std::memcpy(r, x, std::size_t(n) * 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      r[i] = float(x[i]);
  }
}

/// detail::bf16FromFloat without a branch.
SECTILE_INLINE std::uint16_t bf16Bits(float v) {
  std::uint32_t u;
  std::memcpy(&u, &v, 4);
  std::uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = (u >> 16 & 0x8000) | 0x7fc0;
  return std::uint16_t((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

template <Isa isa, class T> SECTILE_INLINE void encode(const float *x, T *r, std::int64_t n) {
  if constexpr (std::same_as<T, f16>) {
    if constexpr (isa == Isa::v3)
      encodeF16V3(x, r, n);
    else
      encodeF16Base(x, r, n);
  } else if constexpr (std::same_as<T, bf16>) {
    for (std::int64_t i = 0; i < n; ++i)
      r[i].bits = bf16Bits(x[i]);
  } else if constexpr (std::same_as<T, float>) {
    std::memcpy(r, x, std::size_t(n) * 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      r[i] = T(x[i]);
  }
}

/// The unsigned integer with the bits of T.
template <class T>
using BitsOf =
    std::conditional_t<sizeof(T) == 8, std::uint64_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                          std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// detail::max and detail::min of f32 and f64 without a branch. Equal operands differ at most in the sign of
/// zero.
template <class T> SECTILE_INLINE T maxFloat(T x, T y) {
  T equal = std::bit_cast<T>(BitsOf<T>(std::bit_cast<BitsOf<T>>(x) & std::bit_cast<BitsOf<T>>(y)));
  T r = x > y ? x : y;
  r = x == y ? equal : r;
  return x != x || y != y ? std::numeric_limits<T>::quiet_NaN() : r;
}
template <class T> SECTILE_INLINE T minFloat(T x, T y) {
  T equal = std::bit_cast<T>(BitsOf<T>(std::bit_cast<BitsOf<T>>(x) | std::bit_cast<BitsOf<T>>(y)));
  T r = x < y ? x : y;
  r = x == y ? equal : r;
  return x != x || y != y ? std::numeric_limits<T>::quiet_NaN() : r;
}
template <class T> SECTILE_INLINE T maxNumFloat(T x, T y) {
  T r = maxFloat(x, y);
  r = x != x ? y : r;
  r = y != y ? x : r;
  return x != x && y != y ? std::numeric_limits<T>::quiet_NaN() : r;
}
template <class T> SECTILE_INLINE T minNumFloat(T x, T y) {
  T r = minFloat(x, y);
  r = x != x ? y : r;
  r = y != y ? x : r;
  return x != x && y != y ? std::numeric_limits<T>::quiet_NaN() : r;
}

} // namespace sectile::tileir::interp
