// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Artifact.h"
#include <sectile/DType.h>
#include <sectile/Error.h>

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace sectile;

namespace {

const double inf = std::numeric_limits<double>::infinity();
const double qnan = std::numeric_limits<double>::quiet_NaN();

/// The value of a code, written from the format's definition, independently of the library.
double valueOf(int exponentBits, int mantissaBits, unsigned code, bool hasInfinity, bool finiteOnly, bool allFinite = false) {
  const unsigned top = (1u << exponentBits) - 1;
  const unsigned mantissa = code & ((1u << mantissaBits) - 1), exponent = code >> mantissaBits & top;
  const double sign = code >> (exponentBits + mantissaBits) & 1 ? -1 : 1;
  const int bias = (1 << (exponentBits - 1)) - 1;
  if (finiteOnly) {
    if (exponent == top && mantissa == (1u << mantissaBits) - 1)
      return qnan;
  } else if (exponent == top && !allFinite) {
    return mantissa == 0 && hasInfinity ? sign * inf : qnan;
  }
  if (exponent == 0)
    return sign * std::ldexp(double(mantissa), 1 - bias - mantissaBits);
  return sign * std::ldexp(double(mantissa + (1u << mantissaBits)), int(exponent) - bias - mantissaBits);
}

struct FormatCase {
  const char *name;
  int exponentBits, mantissaBits;
  bool finiteOnly, saturates;
  unsigned codes;
  unsigned (*fromDouble)(double);
  unsigned (*fromFloat)(float);
  float (*toFloat)(unsigned);
  bool allFinite = false;
  double value(unsigned code) const { return valueOf(exponentBits, mantissaBits, code, true, finiteOnly, allFinite); }
};

const FormatCase formats[] = {
    {"f16", 5, 10, false, false, 65536, [](double v) { return unsigned(f16(v).bits); },
     [](float v) { return unsigned(f16(v).bits); },
     [](unsigned c) { return float(f16::fromBits(std::uint16_t(c))); }},
    {"bf16", 8, 7, false, false, 65536, [](double v) { return unsigned(bf16(v).bits); },
     [](float v) { return unsigned(bf16(v).bits); },
     [](unsigned c) { return float(bf16::fromBits(std::uint16_t(c))); }},
    {"e4m3", 4, 3, true, true, 256, [](double v) { return unsigned(e4m3(v).bits); },
     [](float v) { return unsigned(e4m3(v).bits); },
     [](unsigned c) { return float(e4m3::fromBits(std::uint8_t(c))); }},
    {"e5m2", 5, 2, false, true, 256, [](double v) { return unsigned(e5m2(v).bits); },
     [](float v) { return unsigned(e5m2(v).bits); },
     [](unsigned c) { return float(e5m2::fromBits(std::uint8_t(c))); }},
    {"e2m1", 2, 1, false, true, 16, [](double v) { return unsigned(e2m1(v).bits); },
     [](float v) { return unsigned(e2m1(v).bits); },
     [](unsigned c) { return float(e2m1::fromBits(std::uint8_t(c))); }, true},
    {"e2m3", 2, 3, false, true, 64, [](double v) { return unsigned(e2m3(v).bits); },
     [](float v) { return unsigned(e2m3(v).bits); },
     [](unsigned c) { return float(e2m3::fromBits(std::uint8_t(c))); }, true},
    {"e3m2", 3, 2, false, true, 64, [](double v) { return unsigned(e3m2(v).bits); },
     [](float v) { return unsigned(e3m2(v).bits); },
     [](unsigned c) { return float(e3m2::fromBits(std::uint8_t(c))); }, true},
};

unsigned largestFinite(const FormatCase &f) {
  unsigned code = f.codes / 2 - 1;
  while (!std::isfinite(f.value(code)))
    --code;
  return code;
}

} // namespace

TEST_CASE("every code of every small format has its exact value and comes back", "[dtype]") {
  for (const FormatCase &f : formats) {
    INFO(f.name);
    int wrong = 0;
    for (unsigned code = 0; code < f.codes; ++code) {
      const double expected = f.value(code);
      const float got = f.toFloat(code);
      if (std::isnan(expected)) {
        wrong += !std::isnan(got) || !std::isnan(f.toFloat(f.fromFloat(got))) ||
                 !std::isnan(f.toFloat(f.fromDouble(got)));
        continue;
      }
      wrong += double(got) != expected || std::signbit(got) != std::signbit(expected);
      const unsigned sign = code & (f.codes / 2);
      const unsigned back = f.saturates && std::isinf(expected) ? sign | largestFinite(f) : code;
      wrong += f.fromFloat(got) != back || f.fromDouble(expected) != back;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("ties go to even, and the least step off a tie decides", "[dtype]") {
  for (const FormatCase &f : formats) {
    INFO(f.name);
    int wrong = 0;
    const unsigned last = largestFinite(f);
    for (unsigned code = 0; code < last; ++code) {
      const double low = f.toFloat(code), high = f.toFloat(code + 1), middle = (low + high) / 2;
      const unsigned even = code & 1 ? code + 1 : code;
      for (double sign : {1.0, -1.0}) {
        const unsigned s = sign < 0 ? f.codes / 2 : 0;
        wrong += f.fromDouble(sign * middle) != (s | even);
        wrong += f.fromDouble(sign * std::nextafter(middle, inf)) != (s | (code + 1));
        wrong += f.fromDouble(sign * std::nextafter(middle, -inf)) != (s | code);
        const float m = float(middle); // exact: middle has one bit more than the format
        wrong += f.fromFloat(float(sign) * m) != (s | even);
        wrong += f.fromFloat(float(sign) * std::nextafter(m, HUGE_VALF)) != (s | (code + 1));
        wrong += f.fromFloat(float(sign) * std::nextafter(m, -HUGE_VALF)) != (s | code);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("past the largest finite value", "[dtype]") {
  CHECK(f16(65519.99).bits == 0x7bff);
  CHECK(f16(65520.0).bits == 0x7c00);
  CHECK(f16(65519.996f).bits == 0x7bff);
  CHECK(f16(65520.0f).bits == 0x7c00);
  CHECK(f16(-1e30).bits == 0xfc00);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(1e300).bits == 0x7f80);
  CHECK(bf16(-inf).bits == 0xff80);
  // The smallest double and the smallest float are far below every format but bf16.
  for (const FormatCase &f : formats) {
    CHECK(f.fromDouble(5e-324) == 0);
    CHECK(f.fromDouble(-5e-324) == f.codes / 2);
    CHECK(f.fromFloat(-0.0f) == f.codes / 2);
  }
}

TEST_CASE("double to bf16 rounds once", "[dtype]") {
  // Rounding to float first would lose the last bit and then tie to even.
  const double v = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  CHECK(bf16(v).bits == 0x3f81);
  CHECK(bf16(float(v)).bits == 0x3f80);
  CHECK(f16(1 + std::ldexp(1, -11) + std::ldexp(1, -40)).bits == 0x3c01);
  CHECK(e4m3(1 + std::ldexp(1, -4) + std::ldexp(1, -40)).bits == 0x39);
}

TEST_CASE("float fast paths agree with the double path", "[dtype]") {
  std::mt19937 random(7);
  int wrong = 0;
  for (int i = 0; i < 2000000; ++i) {
    const float v = std::bit_cast<float>(std::uint32_t(random()));
    if (std::isnan(v))
      continue;
    wrong += f16(v).bits != detail::f16FromDouble(v) || bf16(v).bits != detail::bf16FromDouble(v);
  }
  CHECK(wrong == 0);
}

TEST_CASE("types of storage: limits, what lies past them, bits without a meaning", "[dtype]") {
  for (const FormatCase &f : formats) {
    if (!f.allFinite)
      continue;
    INFO(f.name);
    const unsigned largest = f.codes / 2 - 1, sign = f.codes / 2;
    for (double v : {double(f.toFloat(largest)) * 1.01, 1e300, inf}) {
      CHECK(f.fromDouble(v) == largest);
      CHECK(f.fromDouble(-v) == (sign | largest));
      CHECK(f.fromFloat(float(v)) == largest);
    }
    CHECK(f.fromDouble(qnan) == largest); // without the sign
    CHECK(f.fromDouble(-qnan) == largest);
    for (unsigned code = f.codes; code < 256; ++code)
      CHECK(f.toFloat(code) == f.toFloat(code % f.codes));
  }
  CHECK(float(e2m1::fromBits(7)) == 6);
  CHECK(float(e2m3::fromBits(0x1f)) == 7.5f);
  CHECK(float(e3m2::fromBits(0x1f)) == 28);
  const e2m1x2 both(e2m1(1.5f), e2m1(-6.0f));
  CHECK(both.bits == 0xf3);
  CHECK((float(both.first()) == 1.5f && float(both.second()) == -6));
}

TEST_CASE("ue8m0: every code, and the magnitude toward zero", "[dtype]") {
  for (int code = 0; code < 255; ++code) {
    const double v = std::ldexp(1.0, code - 127);
    REQUIRE(double(float(ue8m0::fromBits(std::uint8_t(code)))) == v);
    for (double sign : {1.0, -1.0}) {
      REQUIRE(ue8m0(sign * v).bits == code);
      REQUIRE(ue8m0(float(sign * v)).bits == code);
      REQUIRE(ue8m0(sign * std::nextafter(v, inf)).bits == code);
      REQUIRE(ue8m0(sign * std::nextafter(v, 0.0)).bits == std::max(0, code - 1));
      REQUIRE(ue8m0(sign * 1.999 * v).bits == code);
    }
  }
  CHECK(std::isnan(float(ue8m0::fromBits(255))));
  CHECK(ue8m0(qnan).bits == 255);
  CHECK(ue8m0(float(qnan)).bits == 255);
  CHECK(ue8m0(inf).bits == 254);
  CHECK(ue8m0(-inf).bits == 254);
  CHECK(ue8m0(1e300).bits == 254);
  for (double small : {0.0, -0.0, 5e-324, 1e-300, -1e-50})
    CHECK(ue8m0(small).bits == 0);
}

TEST_CASE("P10a: fp32 to e5m2", "[dtype]") {
  for (float s : {1.0f, -1.0f}) {
    const unsigned sign = s < 0 ? 0x80 : 0;
    CHECK(e5m2(s * 0.3f).bits == (sign | 0x35));
    CHECK(float(e5m2(s * 0.3f)) == s * 0.3125f);
    CHECK(float(e5m2(s * 61439.0f)) == s * 57344.0f);
    CHECK(float(e5m2(s * 61440.0f)) == s * 57344.0f);
    CHECK(float(e5m2(s * 1e6f)) == s * 57344.0f);
    CHECK(float(e5m2(s * HUGE_VALF)) == s * 57344.0f);
    CHECK(std::isnan(float(e5m2(s * float(qnan)))));
  }
}

TEST_CASE("P10b: fp32 to e4m3", "[dtype]") {
  for (float s : {1.0f, -1.0f}) {
    const unsigned sign = s < 0 ? 0x80 : 0;
    CHECK(e4m3(s * 0.3f).bits == (sign | 0x2a));
    CHECK(float(e4m3(s * 448.0f)) == s * 448.0f);
    CHECK(float(e4m3(s * 464.0f)) == s * 448.0f);
    CHECK(float(e4m3(s * 465.0f)) == s * 448.0f);
    CHECK(float(e4m3(s * HUGE_VALF)) == s * 448.0f);
    CHECK(std::isnan(float(e4m3(s * float(qnan)))));
  }
}

TEST_CASE("P10c: fp8 to wider floats keeps value and class", "[dtype]") {
  for (unsigned code = 0; code < 256; ++code) {
    const float a = float(e4m3::fromBits(std::uint8_t(code))), b = float(e5m2::fromBits(std::uint8_t(code)));
    REQUIRE(std::isnan(a) == ((code & 0x7f) == 0x7f));
    REQUIRE(std::isinf(b) == ((code & 0x7f) == 0x7c));
    REQUIRE(std::isnan(b) == ((code & 0x7f) > 0x7c));
    for (float v : {a, b}) {
      const float viaBf16 = bf16(v), viaF16 = f16(v);
      if (std::isnan(v)) {
        REQUIRE(std::isnan(viaBf16));
        REQUIRE(std::isnan(viaF16));
      } else {
        REQUIRE(viaBf16 == v);
        REQUIRE(viaF16 == v);
      }
    }
  }
}

TEST_CASE("names and sizes", "[dtype]") {
  for (int i = 0; i < numAllDTypes; ++i) {
    DType t = DType(i), back = DType::u64;
    CHECK(parseDType(name(t), back));
    CHECK(back == t);
  }
  DType t = DType::i16;
  CHECK_FALSE(parseDType("float32", t));
  CHECK_FALSE(parseDType("", t));
  CHECK(t == DType::i16);
  CHECK(name(DType::boolean) == "bool");
  CHECK(byteSize(DType::index) == 8);
  CHECK(byteSize(DType::e4m3) == 1);
  CHECK(byteSize(DType::bf16) == 2);
  for (DType s : {DType::e2m1, DType::e2m3, DType::e3m2, DType::ue8m0}) {
    CHECK((isStorage(s) && !isFloat(s) && !isInt(s)));
    CHECK(byteSize(s) == 1);
  }
  CHECK((usedBits(DType::e2m1) == 4 && usedBits(DType::e3m2) == 6 && usedBits(DType::ue8m0) == 8 && usedBits(DType::f16) == 16));
}

TEST_CASE("errors read as documented", "[error]") {
  UserError e({SourceLoc("matmul.cpp", 41, 10), "matmul", "mma", "K of a (64) differs from K of b (32)",
               "mma_c1", "load b as [64, N]"});
  CHECK(std::string(e.what()) ==
        "matmul.cpp:41:10: mma: K of a (64) differs from K of b (32) [mma_c1]; load b as "
        "[64, N] (in kernel matmul)");
  CHECK(e.rule() == "mma_c1");
  CHECK(e.loc().line == 41);
  CHECK(std::string(UserError({{}, "", "", "no device", "", ""}).what()) == "no device");
  CHECK(std::string(UserError({SourceLoc("src/a.cpp", 3, 0), "", "load", "bad", "", ""}).what()) ==
        "src/a.cpp:3: load: bad");
  InternalError bug("op left over", "/tmp/repro.mlir");
  CHECK(bug.reproducer() == "/tmp/repro.mlir");
  CHECK(std::string(bug.what()).find("op left over") != std::string::npos);
  CHECK(std::string(bug.what()).find("/tmp/repro.mlir") != std::string::npos);
}

TEST_CASE("specialisation keeps what may be assumed", "[artifact]") {
  KernelArg arg;
  arg.rank = 3;
  arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1008));
  arg.dims = {7, 24, 64};
  arg.strides = {24 * 64, 64, 1};
  ArgSpec s = specialise(arg);
  CHECK(s.alignBytes == 8);
  CHECK(s.unitStrideAxis == 2);
  CHECK(s.dimDiv == std::array<std::uint8_t, maxRank>{1, 8, 16, 1, 1});
  CHECK(s.strideDiv == std::array<std::uint8_t, maxRank>{16, 16, 1, 1, 1});

  arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1000));
  CHECK(specialise(arg).alignBytes == 16);
  arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1001));
  CHECK(specialise(arg).alignBytes == 1);

  // A column vector: the axis of one element counts for the unit stride only if no other qualifies.
  arg.rank = 2;
  arg.dims = {128, 1};
  arg.strides = {1, 1};
  CHECK(specialise(arg).unitStrideAxis == 0);
  CHECK(specialise(arg).strideDiv[1] == 16);
  arg.strides = {3, 1};
  CHECK(specialise(arg).unitStrideAxis == 1);
  arg.strides = {3, 5};
  CHECK(specialise(arg).unitStrideAxis == -1);
  arg.dims = {128, 4};
  arg.strides = {1, 128};
  CHECK(specialise(arg).unitStrideAxis == 0);

  arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1020));
  arg.strides = {1, 32};
  CHECK(specialise(arg).alignBytes == 16);
  CHECK(specialise(arg).strideDiv[1] == 16);

  // Broadcast, reversed and empty views.
  arg.dims = {0, 10};
  arg.strides = {0, -4};
  s = specialise(arg);
  CHECK(s.dimDiv[0] == 16);
  CHECK(s.strideDiv[0] == 16);
  CHECK(s.strideDiv[1] == 4);
  CHECK(s.dimDiv[1] == 2);

  KernelArg scalar;
  CHECK(specialise(scalar) == specialise(scalar));
  CHECK(specialise(scalar).unitStrideAxis == -1);
}

TEST_CASE("specialisation keeps how rows lie to each other and whether offsets are small", "[artifact]") {
  KernelArg arg;
  arg.dtype = DType::bf16; // 8 elements to a vector
  arg.rank = 2;
  arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1000));
  arg.dims = {16384, 50257};
  arg.strides = {50257, 1};
  ArgSpec s = specialise(arg);
  CHECK(s.strideRem == std::array<std::uint8_t, maxRank>{1, 1, 0, 0, 0});
  CHECK(s.small); // 1.65 GB
  CHECK(hasSkewedRows(arg, 1));
  CHECK_FALSE(hasSkewedRows(arg, 0));
  arg.strides = {50264, 1};
  CHECK(specialise(arg).strideRem[0] == 0);
  CHECK_FALSE(hasSkewedRows(arg, 1));
  arg.strides = {-3, 1};
  CHECK(specialise(arg).strideRem[0] == 5);
  arg.dims[0] = 1; // one row: its stride means nothing
  CHECK(specialise(arg).strideRem[0] == 0);
  CHECK(specialise(arg).small);
  CHECK_FALSE(hasSkewedRows(arg, 1));

  // The last element of all decides: below 2^31 bytes or not.
  arg.dtype = DType::f32;
  arg.dims = {1 << 15, 1 << 14};
  arg.strides = {1 << 14, 1};
  CHECK(specialise(arg).small);
  arg.dims[0] += 1;
  CHECK_FALSE(specialise(arg).small);
  arg.dims = {2, 4};
  arg.strides = {-4, 1};
  CHECK_FALSE(specialise(arg).small);
  arg.strides = {std::int64_t(1) << 62, 1};
  CHECK_FALSE(specialise(arg).small);
  arg.dims = {std::int64_t(1) << 40, 4};
  CHECK_FALSE(specialise(arg).small);
  arg.strides = {0, 1}; // a broadcast row, too many of them
  CHECK_FALSE(specialise(arg).small);
  arg.dims[0] = std::int64_t(1) << 30;
  CHECK(specialise(arg).small);
  arg.dims = {1 << 30, 0};
  arg.strides = {-5, 1};
  CHECK(specialise(arg).small);

  // Every fact changes the word of the key.
  arg.dims = {100, 30};
  arg.strides = {30, 1};
  std::uint64_t word = packed(specialise(arg));
  auto changed = [&](auto change) {
    ArgSpec other = specialise(arg);
    change(other);
    return packed(other) != word;
  };
  CHECK(changed([](ArgSpec &a) { a.small = false; }));
  CHECK(changed([](ArgSpec &a) { a.unitStrideAxis = -1; }));
  CHECK(changed([](ArgSpec &a) { a.alignBytes = 4; }));
  CHECK(changed([](ArgSpec &a) { a.strideRem[0] = 3; }));
  CHECK(changed([](ArgSpec &a) { a.strideDiv[4] = 16; }));
  CHECK(changed([](ArgSpec &a) { a.dimDiv[4] = 8; }));
  CHECK(changed([](ArgSpec &a) { a.strideRem[4] = 15; }));
}

TEST_CASE("bounds of dims from the axes that tiles cover", "[artifact]") {
  auto tensor = [](DType dtype, std::int64_t rows, std::int64_t columns) {
    KernelArg arg;
    arg.dtype = dtype;
    arg.rank = 2;
    arg.data = reinterpret_cast<void *>(std::uintptr_t(0x1000));
    arg.dims = {rows, columns};
    arg.strides = {columns, 1};
    return arg;
  };
  auto bounds = [](std::vector<KernelArg> args, std::vector<CoveredAxis> covers) {
    std::vector<ArgSpec> specs;
    for (const KernelArg &arg : args)
      specs.push_back(specialise(arg));
    boundDims(specs, args, covers);
    std::vector<std::pair<std::int64_t, std::int64_t>> r;
    for (const ArgSpec &s : specs)
      r.emplace_back(s.dimMax[0], s.dimMax[1]);
    return r;
  };
  using R = std::vector<std::pair<std::int64_t, std::int64_t>>;
  KernelArg scalar;
  // Rows that all start at multiples of 16 bytes leave no room, so that 1000 and 1024 share a variant.
  CHECK(bounds({tensor(DType::bf16, 5, 1000)}, {{0, 1, 1024}}) == R{{0, 1024}});
  CHECK(bounds({tensor(DType::bf16, 5, 1024)}, {{0, 1, 1024}}) == R{{0, 1024}});
  // Skewed ones leave V - 1, each tensor its own V, also those with aligned rows.
  CHECK(bounds({tensor(DType::bf16, 5, 1001), tensor(DType::f32, 5, 1001), scalar, tensor(DType::u8, 1, 1001)},
               {{0, 1, 1024}}) == R{{0, 1017}, {0, 1021}, {0, 0}, {0, 1009}});
  CHECK(bounds({tensor(DType::bf16, 5, 1023)}, {{0, 1, 1024}}) == R{{0, 1024}});
  // Where the tile has room for it, a line of 128 bytes less one element.
  CHECK(bounds({tensor(DType::bf16, 5, 801), tensor(DType::f32, 5, 801)}, {{0, 1, 1024}}) == R{{0, 961}, {0, 993}});
  CHECK(bounds({tensor(DType::bf16, 4, 12345)}, {{0, 1, 14336}}) == R{{0, 14273}});
  // A dim that is longer than the tile is not bounded by it; the least bound of several counts.
  CHECK(bounds({tensor(DType::f32, 8, 64), tensor(DType::f32, 8, 128)}, {{0, 1, 64}}) == R{{0, 64}, {0, 0}});
  CHECK(bounds({tensor(DType::f32, 8, 64), tensor(DType::f32, 8, 128)}, {{1, 1, 128}, {0, 1, 64}}) == R{{0, 64}, {0, 128}});
  // A covered axis of another stride.
  CHECK(bounds({tensor(DType::f32, 8, 64)}, {{0, 0, 16}}) == R{{16, 0}});
  // No cover, no bound.
  CHECK(bounds({tensor(DType::f32, 8, 64)}, {}) == R{{0, 0}});
}
