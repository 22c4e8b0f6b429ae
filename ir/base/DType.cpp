// SPDX-License-Identifier: Apache-2.0
#include <sectile/DType.h>

#include <array>
#include <bit>

namespace sectile {

static constexpr std::array<std::string_view, numAllDTypes> dtypeNames = {
    "f64", "f32", "f16", "bf16", "e4m3", "e5m2",  "i8",   "i16",  "i32",  "i64",
    "u8",  "u16", "u32", "u64",  "bool", "index", "e2m1", "e2m3", "e3m2", "ue8m0"};

std::string_view name(DType t) { return dtypeNames[std::size_t(t)]; }

bool parseDType(std::string_view text, DType &out) {
  for (std::size_t i = 0; i < dtypeNames.size(); ++i)
    if (dtypeNames[i] == text) {
      out = DType(i);
      return true;
    }
  return false;
}

namespace detail {
namespace {

/// A binary float format with a sign bit on top, subnormals, and the largest finite code `maxFinite`.
struct Format {
  int exponentBits, mantissaBits;
  std::uint32_t maxFinite; ///< without the sign
  std::uint32_t nan;       ///< without the sign
  std::uint32_t overflow;  ///< what rounds past maxFinite becomes
  std::uint32_t infinity;  ///< what infinity becomes
  bool signedNan = true;
};
constexpr Format f16Format{5, 10, 0x7bff, 0x7e00, 0x7c00, 0x7c00};
constexpr Format bf16Format{8, 7, 0x7f7f, 0x7fc0, 0x7f80, 0x7f80};
constexpr Format e4m3Format{4, 3, 0x7e, 0x7f, 0x7e, 0x7e};
constexpr Format e5m2Format{5, 2, 0x7b, 0x7f, 0x7b, 0x7b};
constexpr Format e2m1Format{2, 1, 0x7, 0x7, 0x7, 0x7, false};
constexpr Format e2m3Format{2, 3, 0x1f, 0x1f, 0x1f, 0x1f, false};
constexpr Format e3m2Format{3, 2, 0x1f, 0x1f, 0x1f, 0x1f, false};

/// Rounds a double once, to nearest even.
constexpr std::uint32_t encode(const Format &f, double v) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(v);
  const std::uint32_t sign = std::uint32_t(bits >> 63) << (f.exponentBits + f.mantissaBits);
  const std::uint64_t fraction = bits & ((std::uint64_t(1) << 52) - 1);
  const int biased = int(bits >> 52) & 0x7ff;
  if (biased == 0x7ff)
    return fraction && !f.signedNan ? f.nan : sign | (fraction ? f.nan : f.infinity);
  if (biased == 0) // zero, or a subnormal double: far below half of the least value of every format
    return sign;
  const int bias = (1 << (f.exponentBits - 1)) - 1;
  const int exponent = biased - 1023;
  const std::uint64_t significand = fraction | (std::uint64_t(1) << 52);
  // Bits to drop from the 53-bit significand; more of them below the least normal exponent.
  int drop = 52 - f.mantissaBits;
  int field = exponent + bias;
  if (field < 1) {
    drop += 1 - field;
    field = 1;
  }
  if (drop > 53) // below half of the least subnormal
    return sign;
  std::uint64_t kept = significand >> drop;
  const std::uint64_t rest = significand & ((std::uint64_t(1) << drop) - 1);
  const std::uint64_t half = std::uint64_t(1) << (drop - 1);
  if (rest > half || (rest == half && (kept & 1)))
    ++kept;
  // `kept` holds the implicit bit of a normal number, so adding it to the exponent field less one also
  // carries a subnormal that rounded up, or a significand that rounded to the next power of two, into the
  // exponent.
  const std::uint64_t code = (std::uint64_t(field - 1) << f.mantissaBits) + kept;
  return sign | (code > f.maxFinite ? f.overflow : std::uint32_t(code));
}

/// The value of a finite code, exact.
constexpr float decodeFinite(const Format &f, std::uint32_t code) {
  const std::uint32_t signBit = 1u << (f.exponentBits + f.mantissaBits);
  const int bias = (1 << (f.exponentBits - 1)) - 1;
  const std::uint32_t mantissa = code & ((1u << f.mantissaBits) - 1);
  const int field = int((code & (signBit - 1)) >> f.mantissaBits);
  const std::uint32_t significand = field ? mantissa | (1u << f.mantissaBits) : mantissa;
  const int exponent = (field ? field : 1) - bias - f.mantissaBits; // value = significand * 2^exponent
  const float scale = std::bit_cast<float>(std::uint32_t(exponent + 127) << 23);
  const float magnitude = float(significand) * scale;
  return code & signBit ? -magnitude : magnitude;
}

constexpr std::uint32_t floatSign(std::uint32_t code, int signPosition) {
  return (code >> signPosition) << 31;
}
constexpr std::uint32_t floatInfinity = 0x7f800000, floatNan = 0x7fc00000;

template <int Codes> constexpr auto decodeTable(const Format &f, bool hasInfinity) {
  std::array<float, Codes> table{};
  for (std::uint32_t code = 0; code < Codes; ++code) {
    const std::uint32_t magnitude = code & (Codes / 2 - 1);
    if (magnitude <= f.maxFinite)
      table[code] = decodeFinite(f, code);
    else
      table[code] =
          std::bit_cast<float>(floatSign(code, f.exponentBits + f.mantissaBits) |
                               (hasInfinity && magnitude == f.maxFinite + 1 ? floatInfinity : floatNan));
  }
  return table;
}
constexpr std::array<float, 256> e4m3Values = decodeTable<256>(e4m3Format, false);
constexpr std::array<float, 256> e5m2Values = decodeTable<256>(e5m2Format, true);
constexpr std::array<float, 16> e2m1Values = decodeTable<16>(e2m1Format, false);
constexpr std::array<float, 64> e2m3Values = decodeTable<64>(e2m3Format, false);
constexpr std::array<float, 64> e3m2Values = decodeTable<64>(e3m2Format, false);

} // namespace

std::uint16_t bf16FromDouble(double v) { return std::uint16_t(encode(bf16Format, v)); }
std::uint16_t f16FromDouble(double v) { return std::uint16_t(encode(f16Format, v)); }
std::uint8_t e4m3FromDouble(double v) { return std::uint8_t(encode(e4m3Format, v)); }
std::uint8_t e5m2FromDouble(double v) { return std::uint8_t(encode(e5m2Format, v)); }
std::uint8_t e2m1FromDouble(double v) { return std::uint8_t(encode(e2m1Format, v)); }
std::uint8_t e2m3FromDouble(double v) { return std::uint8_t(encode(e2m3Format, v)); }
std::uint8_t e3m2FromDouble(double v) { return std::uint8_t(encode(e3m2Format, v)); }

std::uint8_t ue8m0FromDouble(double v) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(v);
  const int biased = int(bits >> 52) & 0x7ff;
  if (biased == 0x7ff && bits << 12)
    return 0xff;
  // Without the fraction: toward zero.
  const int exponent = biased - 1023;
  return std::uint8_t(exponent < -127 ? 0 : exponent > 127 ? 254 : exponent + 127);
}

std::uint16_t bf16FromFloat(float v) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffff) > floatInfinity)
    return std::uint16_t((u >> 16 & 0x8000) | bf16Format.nan);
  // The carry out of the fraction is the right rounding up to infinity, too.
  return std::uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

std::uint16_t f16FromFloat(float v) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(v), magnitude = u & 0x7fffffff;
  // Normal results that cannot overflow: 2^-14 <= |v| < 65520. Rebias the exponent by 127 - 15 and round.
  if (magnitude >= 0x38800000 && magnitude < 0x477ff000)
    return std::uint16_t((u >> 16 & 0x8000) |
                         ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
  return f16FromDouble(v);
}

float f16ToFloat(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fff, sign = floatSign(bits, 15);
  if (magnitude > f16Format.maxFinite)
    return std::bit_cast<float>(sign | (magnitude == f16Format.infinity ? floatInfinity : floatNan));
  return decodeFinite(f16Format, bits);
}
float e4m3ToFloat(std::uint8_t bits) { return e4m3Values[bits]; }
float e5m2ToFloat(std::uint8_t bits) { return e5m2Values[bits]; }
float e2m1ToFloat(std::uint8_t bits) { return e2m1Values[bits & 0xf]; }
float e2m3ToFloat(std::uint8_t bits) { return e2m3Values[bits & 0x3f]; }
float e3m2ToFloat(std::uint8_t bits) { return e3m2Values[bits & 0x3f]; }
float ue8m0ToFloat(std::uint8_t bits) {
  // 2^-127 is the one power that f32 writes as a subnormal.
  return std::bit_cast<float>(bits == 0xff ? floatNan : bits ? std::uint32_t(bits) << 23 : 0x00400000);
}

} // namespace detail
} // namespace sectile
