// SPDX-License-Identifier: Apache-2.0
/// \file Conversions between element types, and the block conversions of InterpSimd.h.
#include "ir/InterpSimd.h"

#include <immintrin.h>

namespace sectile::tileir::interp {

Isa hostIsa() {
  static const Isa isa = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2")
                             ? Isa::v3
                             : Isa::base;
  return isa;
}

void decodeF16Base(const f16 *x, float *r, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    // Exponent and fraction moved to their f32 places, rebiased by an exact multiplication that also
    // normalises.
    std::uint32_t bits = x[i].bits, magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16;
    float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    std::uint32_t special = magnitude > 0x7c00 ? 0x7fc00000 : 0x7f800000;
    std::uint32_t out = magnitude >= 0x7c00 ? special : std::bit_cast<std::uint32_t>(value);
    r[i] = std::bit_cast<float>(out | sign);
  }
}
void encodeF16Base(const float *x, f16 *r, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    r[i] = f16(x[i]);
}

// NaNs get the one pattern the portable conversions give them.
__attribute__((target("avx2,fma,f16c"))) void decodeF16V3(const f16 *x, float *r, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(x + i)));
    __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    _mm256_storeu_ps(r + i, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
  decodeF16Base(x + i, r + i, n - i);
}
__attribute__((target("avx2,fma,f16c"))) void encodeF16V3(const float *x, f16 *r, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_loadu_ps(x + i);
    __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(r + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  encodeF16Base(x + i, r + i, n - i);
}

namespace {

/// What decode and encode pass through f32.
template <class T> inline constexpr bool isNarrow = detail::SmallFloat<T> || detail::StorageFloat<T>;

template <class To, class From> struct Cast {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    const From *x = static_cast<const From *>(a);
    To *out = static_cast<To *>(r);
    constexpr bool viaFloat = isNarrow<From> || (isNarrow<To> && std::same_as<From, float>);
    if constexpr (std::same_as<To, From>) {
      std::memcpy(r, a, std::size_t(n) * sizeof(To));
    } else if constexpr (viaFloat) {
      // Every small float is exact in f32, so the second step rounds once.
      alignas(64) float f[blockLanes];
      for (std::int64_t at = 0; at < n; at += blockLanes) {
        std::int64_t count = n - at < blockLanes ? n - at : blockLanes;
        decode<isa>(x + at, f, count);
        if constexpr (isNarrow<To> || std::same_as<To, float>)
          encode<isa>(f, out + at, count);
        else
          for (std::int64_t i = 0; i < count; ++i)
            out[at + i] = detail::cast<To>(f[i]);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = detail::cast<To>(x[i]);
    }
  }
};

template <class T> struct WidenInt {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    const T *x = static_cast<const T *>(a);
    std::int32_t *out = static_cast<std::int32_t *>(r);
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = x[i];
  }
};

struct ToTf32 {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    const std::uint32_t *x = static_cast<const std::uint32_t *>(a);
    std::uint32_t *out = static_cast<std::uint32_t *>(r);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint32_t u = x[i], rounded = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
      out[i] = (u & 0x7fffffff) >= 0x7f800000 ? u : rounded;
    }
  }
};

template <int bytes, unsigned mask> struct Bits {
  template <Isa isa> static SECTILE_INLINE void run(const void *a, void *r, std::int64_t n) {
    if constexpr (mask == 0xff) {
      std::memcpy(r, a, std::size_t(n) * bytes);
    } else {
      const std::uint8_t *x = static_cast<const std::uint8_t *>(a);
      std::uint8_t *out = static_cast<std::uint8_t *>(r);
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = x[i] & mask;
    }
  }
};

} // namespace

UnaryKernel bitsKernel(DType to) {
  switch (usedBits(to)) {
  case 4: return pick<Bits<1, 0xf>, UnaryKernel>(Isa::base);
  case 6: return pick<Bits<1, 0x3f>, UnaryKernel>(Isa::base);
  case 8: return pick<Bits<1, 0xff>, UnaryKernel>(Isa::base);
  case 16: return pick<Bits<2, 0xff>, UnaryKernel>(Isa::base);
  case 32: return pick<Bits<4, 0xff>, UnaryKernel>(Isa::base);
  default: return pick<Bits<8, 0xff>, UnaryKernel>(Isa::base);
  }
}

UnaryKernel castKernel(DType to, DType from, Isa isa) {
  return detail::visitAnyDType(to, [&]<class To>(std::type_identity<To>) {
    return detail::visitAnyDType(from, [&]<class From>(std::type_identity<From>) -> UnaryKernel {
      // Two builds where a vector instruction helps.
      constexpr bool simd = (sizeof(To) == 2 || sizeof(From) == 2 || sizeof(To) == 4 || sizeof(From) == 4) &&
                            (detail::FloatElement<From> || detail::FloatElement<To>)&&sizeof(To) != 1 &&
                            sizeof(From) != 1;
      if constexpr (simd)
        return pick<Cast<To, From>, UnaryKernel>(isa);
      else
        return pick<Cast<To, From>, UnaryKernel>(Isa::base);
    });
  });
}

UnaryKernel widenKernel(DType from, Isa isa) {
  switch (from) {
  case DType::f16:
    return castKernel(DType::f32, DType::f16, isa);
  case DType::bf16:
    return castKernel(DType::f32, DType::bf16, isa);
  case DType::e4m3:
    return castKernel(DType::f32, DType::e4m3, isa);
  case DType::e5m2:
    return castKernel(DType::f32, DType::e5m2, isa);
  case DType::i8:
    return pick<WidenInt<std::int8_t>, UnaryKernel>(isa);
  case DType::u8:
    return pick<WidenInt<std::uint8_t>, UnaryKernel>(isa);
  default:
    return nullptr;
  }
}

UnaryKernel tf32Kernel(Isa isa) { return pick<ToTf32, UnaryKernel>(isa); }

} // namespace sectile::tileir::interp
