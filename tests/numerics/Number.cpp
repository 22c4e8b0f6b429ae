// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Number.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace sectile::numerics {

std::string typeText(DType t) {
  static const char *const names[numDTypes] = {"f64",  "f32",  "f16", "bf16", "f8E4M3FN", "f8E5M2",
                                               "i8",   "i16",  "i32", "i64",  "ui8",      "ui16",
                                               "ui32", "ui64", "i1",  "index"};
  return names[int(t)];
}

long double Format::largest() const {
  int top = (1 << exponentBits) - 1 - (hasInfinity ? 1 : 0) - bias();
  // Without infinities the largest code is NaN, so the largest value ends in a 0.
  long double significand =
      2 - std::ldexp(1.0L, -fractionBits) - (hasInfinity ? 0 : std::ldexp(1.0L, -fractionBits));
  return std::ldexp(significand, top);
}

const Format &formatOf(DType t) {
  static const Format formats[] = {{11, 52, true, false}, {8, 23, true, false}, {5, 10, true, false},
                                   {8, 7, true, false},   {4, 3, false, true},  {5, 2, true, true}};
  return formats[int(t)];
}

long double ulpAt(DType t, long double x) {
  const Format &f = formatOf(t);
  if (!std::isfinite(x))
    return 0;
  int exponent = f.leastExponent();
  if (x != 0)
    exponent = std::max(exponent, std::ilogb(x));
  exponent = std::min(exponent, f.bias() + (f.hasInfinity ? 0 : 1));
  return std::ldexp(1.0L, exponent - f.fractionBits);
}

int bitsOf(DType t) { return isBool(t) ? 1 : int(byteSize(t)) * 8; }
Int leastOf(DType t) { return isSignedInt(t) ? -(Int(1) << (bitsOf(t) - 1)) : Int(0); }
Int greatestOf(DType t) { return (Int(1) << (bitsOf(t) - (isSignedInt(t) ? 1 : 0))) - 1; }

Int wrap(DType t, Int v) {
  if (isBool(t))
    return v & 1;
  Int modulus = Int(1) << bitsOf(t), r = v & (modulus - 1);
  return isSignedInt(t) && r >= modulus / 2 ? r - modulus : r;
}

Number decode(DType t, std::uint64_t bits) {
  Number n;
  if (!isFloat(t)) {
    n.i = isBool(t) ? Int((bits & 0xff) != 0) : wrap(t, Int(bits));
    return n;
  }
  const Format &f = formatOf(t);
  bool negative = bits >> (f.exponentBits + f.fractionBits) & 1;
  int exponent = int(bits >> f.fractionBits) & ((1 << f.exponentBits) - 1);
  std::uint64_t fraction = bits & ((std::uint64_t(1) << f.fractionBits) - 1);
  bool top = exponent == (1 << f.exponentBits) - 1;
  if (f.hasInfinity ? top && fraction != 0 : top && fraction == (std::uint64_t(1) << f.fractionBits) - 1)
    n.v = std::numeric_limits<long double>::quiet_NaN();
  else if (f.hasInfinity && top)
    n.v = std::numeric_limits<long double>::infinity();
  else if (exponent == 0)
    n.v = std::ldexp((long double)(fraction), f.leastExponent() - f.fractionBits);
  else
    n.v = std::ldexp((long double)(fraction | std::uint64_t(1) << f.fractionBits),
                     exponent - f.bias() - f.fractionBits);
  if (negative)
    n.v = -n.v;
  return n;
}

std::uint64_t encodeFloat(DType t, long double v) {
  const Format &f = formatOf(t);
  std::uint64_t sign = std::uint64_t(std::signbit(v)) << (f.exponentBits + f.fractionBits);
  std::uint64_t topExponent = std::uint64_t((1 << f.exponentBits) - 1) << f.fractionBits;
  std::uint64_t infinity = f.hasInfinity ? topExponent : 0;
  std::uint64_t largest =
      f.hasInfinity ? infinity - 1 : topExponent + (std::uint64_t(1) << f.fractionBits) - 2;
  if (std::isnan(v))
    return f.hasInfinity ? infinity | std::uint64_t(1) << (f.fractionBits - 1) : largest + 1;
  std::uint64_t overflow = f.saturates ? largest : infinity;
  long double a = std::fabs(v);
  if (std::isinf(v))
    return sign | overflow;
  if (a == 0)
    return sign;
  int exponent = std::max(f.leastExponent(), std::ilogb(a));
  // In units of the last place; rint rounds to nearest even and is exact below 2^63.
  auto significand = std::uint64_t(std::rint(std::ldexp(a, f.fractionBits - exponent)));
  // A carry out of the fraction moves into the exponent by itself.
  std::uint64_t code = (std::uint64_t(exponent - f.leastExponent()) << f.fractionBits) + significand;
  return sign | (code > largest ? overflow : code);
}

std::uint64_t encode(DType t, const Number &n) {
  if (isFloat(t))
    return encodeFloat(t, n.v);
  auto bits = std::uint64_t(n.i);
  return byteSize(t) == 8 ? bits : bits & ((std::uint64_t(1) << byteSize(t) * 8) - 1);
}

long double roundTo(DType t, long double v) { return decode(t, encodeFloat(t, v)).v; }

std::uint64_t readBits(const void *at, DType t) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, byteSize(t));
  return bits;
}
void writeBits(void *at, DType t, std::uint64_t bits) { std::memcpy(at, &bits, byteSize(t)); }

bool isNanBits(DType t, std::uint64_t bits) { return isFloat(t) && std::isnan(decode(t, bits).v); }

std::string describe(DType t, std::uint64_t bits) {
  if (isFloat(t))
    return fmt::format("{:.17g} (0x{:x})", double(decode(t, bits).v), bits);
  if (isBool(t))
    return fmt::format("0x{:02x}", bits);
  return isSignedInt(t) ? fmt::format("{}", std::int64_t(decode(t, bits).i)) : fmt::format("{}", bits);
}

const char *fillName(Fill f) {
  static const char *const names[] = {"normal", "small", "special", "wide", "unit", "index"};
  return names[int(f)];
}

const std::vector<std::uint64_t> &specials(DType t) {
  static const std::vector<std::vector<std::uint64_t>> all = [] {
    std::vector<std::vector<std::uint64_t>> r(numDTypes);
    for (int k = 0; k < numDTypes; ++k) {
      DType t = DType(k);
      auto &list = r[std::size_t(k)];
      if (isBool(t)) {
        list = {0, 1};
        continue;
      }
      if (!isFloat(t)) {
        Int hi = greatestOf(t), lo = leastOf(t);
        for (Int v : {Int(0),
                      Int(1),
                      Int(2),
                      Int(3),
                      Int(7),
                      hi,
                      hi - 1,
                      lo,
                      lo + 1,
                      Int(-1),
                      Int(-2),
                      Int(-3),
                      Int(-7),
                      hi / 2,
                      hi / 2 + 1,
                      Int(bitsOf(t)),
                      Int(bitsOf(t) - 1),
                      Int(bitsOf(t) + 1),
                      Int(127),
                      Int(128),
                      Int(255),
                      Int(256),
                      Int(2049),
                      Int(65519),
                      Int(65520),
                      Int(1) << 24,
                      (Int(1) << 24) + 1,
                      (Int(1) << 53) + 1,
                      (Int(1) << 31),
                      (Int(1) << 32) + 1}) {
          Number n;
          n.i = wrap(t, v);
          list.push_back(encode(t, n));
        }
        continue;
      }
      const Format &f = formatOf(t);
      long double most = f.largest(), least = std::ldexp(1.0L, f.leastExponent());
      std::vector<long double> values = {0,
                                         1,
                                         2,
                                         3,
                                         0.5L,
                                         1.5L,
                                         2.5L,
                                         0.25L,
                                         127,
                                         127.5L,
                                         128,
                                         255,
                                         256,
                                         32768,
                                         65504,
                                         65520,
                                         2147483648.0L,
                                         4294967296.0L,
                                         9223372036854775808.0L,
                                         18446744073709551616.0L,
                                         88.7L,
                                         89,
                                         104,
                                         448,
                                         464,
                                         480,
                                         57344,
                                         61440,
                                         0.1L,
                                         0.3L,
                                         10,
                                         3.14159265358979L,
                                         1.5707963267948966L,
                                         1e5L,
                                         1e10L,
                                         least,
                                         least / 2,
                                         std::ldexp(least, -f.fractionBits),
                                         least - std::ldexp(least, -f.fractionBits),
                                         most,
                                         most / 2,
                                         std::sqrt(most),
                                         std::numeric_limits<long double>::infinity()};
      for (int e : {-30, -20, -10, -8, -7, -4, -1, 4, 8, 11, 15, 24})
        for (long double d : {-1.0L, 1.0L}) // neighbours of powers of two
          values.push_back(std::ldexp(1 + d * std::ldexp(1.0L, -f.fractionBits), e));
      // Halfway between neighbours of every narrower format, and beside.
      for (int p : {2, 3, 7, 10, 23})
        if (p < f.fractionBits)
          for (long double d : {0.5L, 1.5L})
            for (long double s : {0.0L, -1.0L, 1.0L})
              for (int e : {0, -7, -15, -126})
                values.push_back(
                    std::ldexp(1 + std::ldexp(d, -p) + s * std::ldexp(1.0L, -f.fractionBits), e));
      for (long double v : values) {
        list.push_back(encodeFloat(t, v));
        list.push_back(encodeFloat(t, -v));
      }
      list.push_back(encodeFloat(t, std::numeric_limits<long double>::quiet_NaN()));
      if (f.hasInfinity) { // saturating formats have them, too, though no conversion gives them
        std::uint64_t infinity = std::uint64_t((1 << f.exponentBits) - 1) << f.fractionBits;
        list.push_back(infinity);
        list.push_back(infinity | std::uint64_t(1) << (f.exponentBits + f.fractionBits));
      }
    }
    return r;
  }();
  return all[std::size_t(t)];
}

std::uint64_t sample(DType t, Fill fill, std::mt19937_64 &random, std::int64_t position) {
  auto between = [&](Int lo, Int hi) { return lo + Int(random() % std::uint64_t(hi - lo + 1)); };
  auto number = [&](Int v) {
    Number n;
    n.i = wrap(t, v);
    n.v = (long double)(std::int64_t(v));
    return encode(t, n);
  };
  if (isBool(t))
    return random() % 2;
  std::uint64_t widthMask = byteSize(t) == 8 ? ~std::uint64_t(0) : (std::uint64_t(1) << byteSize(t) * 8) - 1;
  switch (fill) {
  case Fill::small:
    return number(between(isFloat(t) || isSignedInt(t) ? -4 : 0, 4));
  case Fill::index:
    return number(between(-2, 40));
  case Fill::special: {
    const auto &list = specials(t);
    // The first lanes hold all of them.
    if (position < std::int64_t(list.size()))
      return list[std::size_t(position)];
    return random() % 3 ? list[random() % list.size()] : random() & widthMask;
  }
  case Fill::unit:
    return isFloat(t) ? encodeFloat(t, 0.5L + 1.5L * std::ldexp((long double)(random() >> 11), -53))
                      : number(between(1, 3));
  case Fill::wide: {
    if (!isFloat(t))
      return (random() & widthMask) >> (random() % std::uint64_t(bitsOf(t)));
    std::uint64_t bits = random() & widthMask;
    return std::isfinite(decode(t, bits).v) ? bits : number(1);
  }
  case Fill::normal:
    if (!isFloat(t))
      return random() & widthMask;
    return encodeFloat(t, std::normal_distribution<double>()(random));
  }
  return 0;
}

} // namespace sectile::numerics
