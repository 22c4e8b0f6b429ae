// SPDX-License-Identifier: Apache-2.0
/// \file Element types: one enum for run time, one C++ type each for compile time.
///
/// Floats: f64, f32 (IEEE-754), f16 (1-5-10), bf16 (1-8-7), e4m3 (OCP FP8 1-4-3, finite only: no infinity,
/// NaN is S.1111.111, largest 448), e5m2 (OCP FP8 1-5-2, IEEE-like, largest 57344).
/// Every conversion rounds once, to nearest even, straight from the source format. Conversions to e4m3 and e5m2
/// saturate finite values; for both, +-infinity becomes the largest finite value and NaN stays NaN
/// (source: OCP 8-bit Floating Point Specification 1.0, saturating mode).
///
/// Types of storage (source: OCP Microscaling Formats 1.0) are loaded, stored, moved and converted; nothing is computed
/// in them. They have neither infinity nor, but for ue8m0, NaN: e2m1 (largest 6), e2m3 (largest 7.5), e3m2 (largest 28),
/// one value in the low bits of a byte, whose other bits conversions ignore and make zero; conversions round to nearest
/// even and saturate, NaN becomes the largest value (cvt.rn.satfinite of the PTX ISA). ue8m0 is the power of two
/// 2^(code - 127), code 255 is NaN; conversions take the magnitude and round toward zero, below 2^-127 (zero, too) to
/// 2^-127, above 2^127 to that (cvt.rz.satfinite). In memory two e2m1 share a byte: e2m1x2, which is u8 to the compiler.
#pragma once

#include <sectile/Export.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace sectile {

enum class DType : std::uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i8, i16, i32, i64, u8, u16, u32, u64, boolean, index, e2m1, e2m3, e3m2, ue8m0 };
/// Types that are computed with; those of storage stand behind them.
inline constexpr int numDTypes = 16;
inline constexpr int numAllDTypes = 20;

/// Size in memory in bytes; a boolean is one byte holding 0 or 1, an index is 8 bytes.
constexpr std::size_t byteSize(DType t) {
  switch (t) {
  case DType::f64: case DType::i64: case DType::u64: case DType::index: return 8;
  case DType::f32: case DType::i32: case DType::u32: return 4;
  case DType::f16: case DType::bf16: case DType::i16: case DType::u16: return 2;
  default: return 1;
  }
}
/// A type of storage, not computed with.
constexpr bool isStorage(DType t) { return int(t) >= numDTypes; }
/// Floats that are computed with.
constexpr bool isFloat(DType t) { return t <= DType::e5m2; }
/// The bits of an element's bytes that have a meaning.
constexpr int usedBits(DType t) {
  return t == DType::e2m1 ? 4 : t == DType::e2m3 || t == DType::e3m2 ? 6 : 8 * int(byteSize(t));
}
/// True for i8..i64 and index.
constexpr bool isSignedInt(DType t) { return (t >= DType::i8 && t <= DType::i64) || t == DType::index; }
constexpr bool isUnsignedInt(DType t) { return t >= DType::u8 && t <= DType::u64; }
constexpr bool isInt(DType t) { return isSignedInt(t) || isUnsignedInt(t); }
/// "f64", "bf16", "e4m3", "i32", "u8", "bool", "index", "e2m1", "ue8m0".
SECTILE_API std::string_view name(DType t);
/// Parses name(t); returns false and leaves `out` alone for anything else.
SECTILE_API bool parseDType(std::string_view text, DType &out);

namespace detail {
SECTILE_API std::uint16_t bf16FromDouble(double v);
SECTILE_API std::uint16_t bf16FromFloat(float v);
SECTILE_API std::uint16_t f16FromDouble(double v);
SECTILE_API std::uint16_t f16FromFloat(float v);
SECTILE_API std::uint8_t e4m3FromDouble(double v);
SECTILE_API std::uint8_t e5m2FromDouble(double v);
SECTILE_API std::uint8_t e2m1FromDouble(double v);
SECTILE_API std::uint8_t e2m3FromDouble(double v);
SECTILE_API std::uint8_t e3m2FromDouble(double v);
SECTILE_API std::uint8_t ue8m0FromDouble(double v);
SECTILE_API float e2m1ToFloat(std::uint8_t bits);
SECTILE_API float e2m3ToFloat(std::uint8_t bits);
SECTILE_API float e3m2ToFloat(std::uint8_t bits);
SECTILE_API float ue8m0ToFloat(std::uint8_t bits);
SECTILE_API float f16ToFloat(std::uint16_t bits);
SECTILE_API float e4m3ToFloat(std::uint8_t bits);
SECTILE_API float e5m2ToFloat(std::uint8_t bits);
inline float bf16ToFloat(std::uint16_t bits) {
  std::uint32_t u = std::uint32_t(bits) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
} // namespace detail

/// 16-bit brain float. Implicit from and to float; one rounding to nearest even.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  bf16(float v) : bits(detail::bf16FromFloat(v)) {}
  explicit bf16(double v) : bits(detail::bf16FromDouble(v)) {}
  explicit bf16(int v) : bits(detail::bf16FromDouble(v)) {}
  operator float() const { return detail::bf16ToFloat(bits); }
  static bf16 fromBits(std::uint16_t b) { bf16 r; r.bits = b; return r; }
};
/// IEEE-754 half. Implicit from and to float; one rounding to nearest even, overflow gives infinity.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  f16(float v) : bits(detail::f16FromFloat(v)) {}
  explicit f16(double v) : bits(detail::f16FromDouble(v)) {}
  explicit f16(int v) : bits(detail::f16FromDouble(v)) {}
  operator float() const { return detail::f16ToFloat(bits); }
  static f16 fromBits(std::uint16_t b) { f16 r; r.bits = b; return r; }
};
/// OCP FP8 E4M3 (finite only), saturating.
struct e4m3 {
  std::uint8_t bits = 0;
  e4m3() = default;
  e4m3(float v) : bits(detail::e4m3FromDouble(v)) {}
  explicit e4m3(double v) : bits(detail::e4m3FromDouble(v)) {}
  explicit e4m3(int v) : bits(detail::e4m3FromDouble(v)) {}
  operator float() const { return detail::e4m3ToFloat(bits); }
  static e4m3 fromBits(std::uint8_t b) { e4m3 r; r.bits = b; return r; }
};
/// OCP FP8 E5M2, saturating.
struct e5m2 {
  std::uint8_t bits = 0;
  e5m2() = default;
  e5m2(float v) : bits(detail::e5m2FromDouble(v)) {}
  explicit e5m2(double v) : bits(detail::e5m2FromDouble(v)) {}
  explicit e5m2(int v) : bits(detail::e5m2FromDouble(v)) {}
  operator float() const { return detail::e5m2ToFloat(bits); }
  static e5m2 fromBits(std::uint8_t b) { e5m2 r; r.bits = b; return r; }
};
/// OCP FP4, saturating: +-0, 0.5, 1, 1.5, 2, 3, 4, 6. One value; in memory two share a byte, see e2m1x2.
struct e2m1 {
  std::uint8_t bits = 0;
  e2m1() = default;
  e2m1(float v) : bits(detail::e2m1FromDouble(v)) {}
  explicit e2m1(double v) : bits(detail::e2m1FromDouble(v)) {}
  explicit e2m1(int v) : bits(detail::e2m1FromDouble(v)) {}
  operator float() const { return detail::e2m1ToFloat(bits); }
  static e2m1 fromBits(std::uint8_t b) { e2m1 r; r.bits = b; return r; }
};
/// OCP FP6 E2M3, saturating: multiples of 1/8 to 7.5.
struct e2m3 {
  std::uint8_t bits = 0;
  e2m3() = default;
  e2m3(float v) : bits(detail::e2m3FromDouble(v)) {}
  explicit e2m3(double v) : bits(detail::e2m3FromDouble(v)) {}
  explicit e2m3(int v) : bits(detail::e2m3FromDouble(v)) {}
  operator float() const { return detail::e2m3ToFloat(bits); }
  static e2m3 fromBits(std::uint8_t b) { e2m3 r; r.bits = b; return r; }
};
/// OCP FP6 E3M2, saturating: multiples of 1/16 to 28.
struct e3m2 {
  std::uint8_t bits = 0;
  e3m2() = default;
  e3m2(float v) : bits(detail::e3m2FromDouble(v)) {}
  explicit e3m2(double v) : bits(detail::e3m2FromDouble(v)) {}
  explicit e3m2(int v) : bits(detail::e3m2FromDouble(v)) {}
  operator float() const { return detail::e3m2ToFloat(bits); }
  static e3m2 fromBits(std::uint8_t b) { e3m2 r; r.bits = b; return r; }
};
/// OCP E8M0: a power of two.
struct ue8m0 {
  std::uint8_t bits = 0;
  ue8m0() = default;
  ue8m0(float v) : bits(detail::ue8m0FromDouble(v)) {}
  explicit ue8m0(double v) : bits(detail::ue8m0FromDouble(v)) {}
  explicit ue8m0(int v) : bits(detail::ue8m0FromDouble(v)) {}
  operator float() const { return detail::ue8m0ToFloat(bits); }
  static ue8m0 fromBits(std::uint8_t b) { ue8m0 r; r.bits = b; return r; }
};
/// Two e2m1 in a byte, the first one in the low half: how memory holds them, u8 to the compiler.
struct e2m1x2 {
  std::uint8_t bits = 0;
  e2m1x2() = default;
  e2m1x2(e2m1 first, e2m1 second) : bits(std::uint8_t((first.bits & 15) | second.bits << 4)) {}
  e2m1 first() const { return e2m1::fromBits(bits & 15); }
  e2m1 second() const { return e2m1::fromBits(bits >> 4); }
  static e2m1x2 fromBits(std::uint8_t b) { e2m1x2 r; r.bits = b; return r; }
};

using f64 = double;
using f32 = float;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
/// Tag of the index type of `grid`, `range`, `dim` and `iota`: a signed integer of 64-bit meaning.
struct index {};

/// The DType of a C++ element type; only element types have one.
template <class T> struct DTypeOf;
template <> struct DTypeOf<f64> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<f32> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<f16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<e4m3> { static constexpr DType value = DType::e4m3; };
template <> struct DTypeOf<e5m2> { static constexpr DType value = DType::e5m2; };
template <> struct DTypeOf<i8> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<i16> { static constexpr DType value = DType::i16; };
template <> struct DTypeOf<i32> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<i64> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<long long> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<u8> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<u16> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<u32> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<u64> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<unsigned long long> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
template <> struct DTypeOf<index> { static constexpr DType value = DType::index; };
template <> struct DTypeOf<e2m1> { static constexpr DType value = DType::e2m1; };
template <> struct DTypeOf<e2m3> { static constexpr DType value = DType::e2m3; };
template <> struct DTypeOf<e3m2> { static constexpr DType value = DType::e3m2; };
template <> struct DTypeOf<ue8m0> { static constexpr DType value = DType::ue8m0; };
template <> struct DTypeOf<e2m1x2> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtypeOf = DTypeOf<std::remove_const_t<T>>::value;
template <class T>
concept Element = requires { DTypeOf<std::remove_const_t<T>>::value; };

} // namespace sectile
