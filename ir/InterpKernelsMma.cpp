// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products. Per output one fused multiply-add per k, k ascending: the bits do not depend on the
/// machine.
#include "ir/InterpSimd.h"

#include <immintrin.h>

namespace sectile::tileir::interp {
namespace {

template <class T> SECTILE_INLINE T multiplyAdd(T a, T b, T c) {
  if constexpr (std::same_as<T, std::int32_t>)
    return detail::addInt(detail::mulInt(a, b), c);
  else
    return std::fma(a, b, c);
}

/// Any machine, any masks. Missing lanes take no step at all: not even 0 * NaN, nor 0 + -0.
template <class T> struct MaskedMma {
  template <Isa isa> static SECTILE_INLINE void run(const MmaCall &call) {
    const T *a = static_cast<const T *>(call.a), *b = static_cast<const T *>(call.b);
    T *c = static_cast<T *>(call.c);
    for (std::int64_t m = call.m0; m < call.m1; ++m)
      for (std::int64_t k = call.k0; k < call.k1; ++k) {
        if (call.aMask && !call.aMask[m * call.K + k])
          continue;
        T left = a[m * call.K + k];
        const T *right = b + k * call.N;
        T *out = c + m * call.N;
        if (call.bMask) {
          const std::uint8_t *keep = call.bMask + k * call.N;
          for (std::int64_t n = 0; n < call.N; ++n) {
            T next = multiplyAdd(left, right[n], out[n]);
            out[n] = keep[n] ? next : out[n];
          }
        } else {
#pragma GCC ivdep
          for (std::int64_t n = 0; n < call.N; ++n)
            out[n] = multiplyAdd(left, right[n], out[n]);
        }
      }
  }
};

#define SECTILE_FMA_TARGET __attribute__((target("avx2,fma")))
#define SECTILE_FMA_INLINE __attribute__((always_inline, target("avx2,fma"))) static inline

template <class T> struct Vec;
template <> struct Vec<float> {
  using V = __m256;
  static constexpr int width = 8;
  SECTILE_FMA_INLINE V load(const float *p) { return _mm256_loadu_ps(p); }
  SECTILE_FMA_INLINE void store(float *p, V v) { _mm256_storeu_ps(p, v); }
  SECTILE_FMA_INLINE V all(float v) { return _mm256_set1_ps(v); }
  SECTILE_FMA_INLINE V step(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
};
template <> struct Vec<double> {
  using V = __m256d;
  static constexpr int width = 4;
  SECTILE_FMA_INLINE V load(const double *p) { return _mm256_loadu_pd(p); }
  SECTILE_FMA_INLINE void store(double *p, V v) { _mm256_storeu_pd(p, v); }
  SECTILE_FMA_INLINE V all(double v) { return _mm256_set1_pd(v); }
  SECTILE_FMA_INLINE V step(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
};
template <> struct Vec<std::int32_t> {
  using V = __m256i;
  static constexpr int width = 8;
  SECTILE_FMA_INLINE V load(const std::int32_t *p) {
    return _mm256_loadu_si256(reinterpret_cast<const V *>(p));
  }
  SECTILE_FMA_INLINE void store(std::int32_t *p, V v) { _mm256_storeu_si256(reinterpret_cast<V *>(p), v); }
  SECTILE_FMA_INLINE V all(std::int32_t v) { return _mm256_set1_epi32(v); }
  SECTILE_FMA_INLINE V step(V a, V b, V c) { return _mm256_add_epi32(_mm256_mullo_epi32(a, b), c); }
};

/// `rows` rows by `vectors` vectors of outputs held in registers.
template <class T, int rows, int vectors>
SECTILE_FMA_TARGET void block(const T *a, const T *b, T *c, std::int64_t K, std::int64_t N, std::int64_t k0,
                              std::int64_t k1) {
  using S = Vec<T>;
  typename S::V acc[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      acc[r][v] = S::load(c + r * N + v * S::width);
  for (std::int64_t k = k0; k < k1; ++k) {
    typename S::V right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      right[v] = S::load(b + k * N + v * S::width);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      typename S::V left = S::all(a[r * K + k]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        acc[r][v] = S::step(left, right[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      S::store(c + r * N + v * S::width, acc[r][v]);
}

template <class T, int vectors> SECTILE_FMA_TARGET void columns(const MmaCall &call, std::int64_t n) {
  const T *a = static_cast<const T *>(call.a), *b = static_cast<const T *>(call.b) + n;
  T *c = static_cast<T *>(call.c) + n;
  std::int64_t m = call.m0;
  for (; m + 6 <= call.m1; m += 6)
    block<T, 6, vectors>(a + m * call.K, b, c + m * call.N, call.K, call.N, call.k0, call.k1);
  for (; m + 3 <= call.m1; m += 3)
    block<T, 3, vectors>(a + m * call.K, b, c + m * call.N, call.K, call.N, call.k0, call.k1);
  for (; m < call.m1; ++m)
    block<T, 1, vectors>(a + m * call.K, b, c + m * call.N, call.K, call.N, call.k0, call.k1);
}

template <class T> SECTILE_FMA_TARGET void mmaV3(const MmaCall &call) {
  if (call.aMask || call.bMask)
    return runV3<MaskedMma<T>, const MmaCall &>(call);
  constexpr std::int64_t width = Vec<T>::width;
  const T *a = static_cast<const T *>(call.a), *b = static_cast<const T *>(call.b);
  T *c = static_cast<T *>(call.c);
  std::int64_t n = 0;
  for (; n + 2 * width <= call.N; n += 2 * width)
    columns<T, 2>(call, n);
  for (; n + width <= call.N; n += width)
    columns<T, 1>(call, n);
  for (; n < call.N; ++n)
    for (std::int64_t m = call.m0; m < call.m1; ++m) {
      T acc = c[m * call.N + n];
      for (std::int64_t k = call.k0; k < call.k1; ++k)
        acc = multiplyAdd(a[m * call.K + k], b[k * call.N + n], acc);
      c[m * call.N + n] = acc;
    }
}

template <class T> MmaKernel build(Isa isa) {
  return isa == Isa::v3 ? mmaV3<T> : runBase<MaskedMma<T>, const MmaCall &>;
}

} // namespace

MmaKernel mmaKernel(DType type, Isa isa) {
  switch (type) {
  case DType::f32:
    return build<float>(isa);
  case DType::f64:
    return build<double>(isa);
  case DType::i32:
    return build<std::int32_t>(isa);
  default:
    return nullptr;
  }
}

} // namespace sectile::tileir::interp
