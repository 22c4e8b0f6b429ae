// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Scalar.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <random>

using namespace sectile;
namespace s = sectile::detail;

namespace {
const float inf = std::numeric_limits<float>::infinity();
const float qnan = std::numeric_limits<float>::quiet_NaN();
} // namespace

TEST_CASE("P14a: shifts", "[scalar]") {
  CHECK(s::shr(i8(-128), i8(5)) == -4);
  CHECK(s::shr(u8(128), u8(5)) == 4);
  CHECK(s::shr(u16(0x8000), u16(5)) == 1024);
  CHECK(s::shr(i32(-1), i32(5)) == -1);
  CHECK(s::shr(u32(0x80000000), u32(31)) == 1);
}

TEMPLATE_TEST_CASE("shift counts past the width", "[scalar]", i8, i16, i32, i64, u8, u16, u32, u64) {
  using T = TestType;
  const T width = sizeof(T) * 8;
  const bool isSigned = std::is_signed_v<T>;
  CHECK(s::shl(T(1), T(width - 1)) ==
        std::numeric_limits<T>::min() + (isSigned ? T(0) : T(T(1) << (width - 1))));
  for (T count : {width, T(width + 1), T(127), T(-1)}) {
    CHECK(s::shl(T(-1), count) == 0);
    CHECK(s::shr(T(5), count) == 0);
    CHECK(s::shr(T(-1), count) == (isSigned ? T(-1) : T(0)));
  }
  CHECK(s::shl(T(-1), T(1)) == T(-2));
}

TEST_CASE("P14b: division and remainder", "[scalar]") {
  const int x[] = {7, -7, -7}, y[] = {-2, 2, -2};
  const int q[] = {-3, -3, 3}, r[] = {1, -1, -1}, fq[] = {-4, -4, 3}, fr[] = {-1, 1, -1};
  for (int i = 0; i < 3; ++i) {
    CHECK(s::divInt(x[i], y[i]) == q[i]);
    CHECK(s::remInt(x[i], y[i]) == r[i]);
    CHECK(s::floorDiv(x[i], y[i]) == fq[i]);
    CHECK(s::floorMod(x[i], y[i]) == fr[i]);
  }
  CHECK(s::ceilDiv(-36, 5) == -7);
  CHECK(s::ceilDiv(36, 5) == 8);
  CHECK(s::ceilDiv(36u, 5u) == 8u);
  CHECK(s::ceilDiv(-36, -5) == 8);
  CHECK(s::ceilDiv(35, 5) == 7);
}

TEST_CASE("division is total and a = q*b + r on every 8-bit pair", "[scalar]") {
  auto all = [](auto tag) {
    using T = decltype(tag);
    int wrong = 0;
    for (int a = std::numeric_limits<T>::min(); a <= std::numeric_limits<T>::max(); ++a)
      for (int b = std::numeric_limits<T>::min(); b <= std::numeric_limits<T>::max(); ++b) {
        T x = T(a), y = T(b);
        T q = s::divInt(x, y), r = s::remInt(x, y), fq = s::floorDiv(x, y), fr = s::floorMod(x, y);
        wrong += s::addInt(s::mulInt(q, y), r) != x || s::addInt(s::mulInt(fq, y), fr) != x;
        if (b == 0) {
          wrong += q != 0 || r != x || fq != 0 || fr != x || s::ceilDiv(x, y) != 0;
          continue;
        }
        const double exact = double(a) / b;
        wrong += q != T(int(std::trunc(exact))) || fq != T(int(std::floor(exact))) ||
                 s::ceilDiv(x, y) != T(int(std::ceil(exact)));
        wrong += r != 0 && (r < 0) != (a < 0);
        wrong += fr != 0 && (fr < 0) != (b < 0);
      }
    CHECK(wrong == 0);
  };
  all(i8());
  all(u8());
}

TEMPLATE_TEST_CASE("the least integer divided by -1 wraps", "[scalar]", i8, i16, i32, i64) {
  using T = TestType;
  const T least = std::numeric_limits<T>::min();
  CHECK(s::divInt(least, T(-1)) == least);
  CHECK(s::remInt(least, T(-1)) == 0);
  CHECK(s::floorDiv(least, T(-1)) == least);
  CHECK(s::floorMod(least, T(-1)) == 0);
  CHECK(s::neg(least) == least);
  CHECK(s::abs(least) == least);
  CHECK(s::add(std::numeric_limits<T>::max(), T(1)) == least);
  CHECK(s::sub(least, T(1)) == std::numeric_limits<T>::max());
  CHECK(s::mul(least, T(-1)) == least);
}

TEMPLATE_TEST_CASE("P11: max and min propagate NaN, maxNum and minNum ignore it", "[scalar]", f64, f32, f16,
                   bf16, e4m3, e5m2) {
  using T = TestType;
  const T n = T(qnan), one = T(1.0f), two = T(2.0f);
  for (auto [a, b] : {std::pair(n, one), std::pair(one, n), std::pair(n, n)}) {
    CHECK(s::isNan(s::max(a, b)));
    CHECK(s::isNan(s::min(a, b)));
  }
  for (auto [a, b] : {std::pair(n, one), std::pair(one, n)}) {
    CHECK(float(s::maxNum(a, b)) == 1.0f);
    CHECK(float(s::minNum(a, b)) == 1.0f);
  }
  CHECK(s::isNan(s::maxNum(n, n)));
  CHECK(s::isNan(s::minNum(n, n)));
  for (auto [a, b] : {std::pair(one, two), std::pair(two, one)}) {
    CHECK(float(s::max(a, b)) == 2.0f);
    CHECK(float(s::min(a, b)) == 1.0f);
    CHECK(float(s::maxNum(a, b)) == 2.0f);
    CHECK(float(s::minNum(a, b)) == 1.0f);
  }
  const T zero = T(0.0f), minusZero = T(-0.0f);
  for (auto [a, b] : {std::pair(zero, minusZero), std::pair(minusZero, zero)}) {
    CHECK_FALSE(std::signbit(float(s::max(a, b))));
    CHECK(std::signbit(float(s::min(a, b))));
    CHECK_FALSE(std::signbit(float(s::maxNum(a, b))));
    CHECK(std::signbit(float(s::minNum(a, b))));
  }
}

TEST_CASE("max and min of integers and booleans", "[scalar]") {
  CHECK(s::max(i8(-1), i8(1)) == 1);
  CHECK(s::max(u8(255), u8(1)) == 255);
  CHECK(s::min(i64(-5), i64(3)) == -5);
  CHECK(s::max(false, true));
  CHECK_FALSE(s::min(false, true));
  CHECK(s::add(true, true));
  CHECK_FALSE(s::mul(true, false));
  CHECK(s::maxNum(3, 4) == 4);
}

TEST_CASE("P14c: float to integer saturates, NaN is 0", "[scalar]") {
  CHECK(s::cast<i8>(inf) == 127);
  CHECK(s::cast<i8>(510.0f) == 127);
  CHECK(s::cast<i8>(-200.0f) == -128);
  CHECK(s::cast<i8>(qnan) == 0);
  CHECK(s::cast<i8>(-128.9f) == -128);
  CHECK(s::cast<i8>(127.9f) == 127);
  CHECK(s::cast<i8>(-1.9f) == -1);
  CHECK(s::cast<u8>(-0.9f) == 0);
  CHECK(s::cast<u8>(-1.0f) == 0);
  CHECK(s::cast<u8>(255.5) == 255);
  CHECK(s::cast<u32>(4294967295.0) == 4294967295u);
  CHECK(s::cast<u32>(4294967296.0) == 4294967295u);
  CHECK(s::cast<i32>(2147483647.0) == 2147483647);
  CHECK(s::cast<i32>(-2147483648.0) == std::numeric_limits<i32>::min());
  CHECK(s::cast<i64>(9223372036854775807.0) == std::numeric_limits<i64>::max());
  CHECK(s::cast<i64>(9223372036854774784.0) == 9223372036854774784);
  CHECK(s::cast<i64>(-1e300) == std::numeric_limits<i64>::min());
  CHECK(s::cast<u64>(18446744073709551616.0) == std::numeric_limits<u64>::max());
  CHECK(s::cast<u64>(18446744073709549568.0) == 18446744073709549568u);
  CHECK(s::cast<i16>(f16(-3.5f)) == -3);
  CHECK(s::cast<i16>(bf16(inf)) == 32767);
  CHECK(s::cast<i32>(e4m3(448.0f)) == 448);
  CHECK(s::cast<u8>(e5m2(qnan)) == 0);
}

TEST_CASE("integer to float rounds once", "[scalar]") {
  CHECK(s::cast<f32>(i32(16777217)) == 16777216.0f);
  CHECK(s::cast<f32>(i64(9007199791611905)) == 9007200328482816.0f); // through double it would tie downwards
  CHECK(s::cast<f64>(u64(18446744073709551615u)) == 18446744073709551616.0);
  CHECK(s::cast<f16>(i32(2049)).bits == f16(2048.0f).bits);
  CHECK(s::cast<f16>(i32(2051)).bits == f16(2052.0f).bits);
  CHECK(s::cast<f16>(i32(65520)).bits == 0x7c00);
  CHECK(s::cast<f16>(i32(-65519)).bits == 0xfbff);
  CHECK(s::cast<e4m3>(i32(1000)).bits == 0x7e);
  CHECK(s::cast<e5m2>(i32(-100000)).bits == 0xfb);
  CHECK(s::cast<bf16>(u8(255)).bits == bf16(255.0f).bits);
  // Just above a tie of bf16, where rounding to double first lands on the tie and then goes to even.
  const i64 tie = (i64(1) << 62) + (i64(1) << 54);
  CHECK(float(s::cast<bf16>(tie)) == std::ldexp(1.0f, 62));
  CHECK(float(s::cast<bf16>(tie + 1)) == std::ldexp(1.0f, 62) + std::ldexp(1.0f, 55));
  CHECK(float(s::cast<bf16>(-tie - 1)) == -std::ldexp(1.0f, 62) - std::ldexp(1.0f, 55));
  CHECK(float(s::cast<bf16>(u64(2 * u64(tie) + 1))) == std::ldexp(1.0f, 63) + std::ldexp(1.0f, 56));
  CHECK(float(s::cast<bf16>(std::numeric_limits<i64>::min())) == -std::ldexp(1.0f, 63));
}

TEST_CASE("integer to integer wraps, bool is != 0", "[scalar]") {
  CHECK(s::cast<i8>(i32(300)) == 44);
  CHECK(s::cast<u8>(i32(-1)) == 255);
  CHECK(s::cast<i64>(u32(0xffffffff)) == 4294967295);
  CHECK(s::cast<u64>(i8(-1)) == std::numeric_limits<u64>::max());
  CHECK(s::cast<i32>(true) == 1);
  CHECK(float(s::cast<bf16>(true)) == 1.0f);
  CHECK(s::cast<f64>(false) == 0.0);
  CHECK(s::cast<bool>(i32(256)));
  CHECK_FALSE(s::cast<bool>(u8(0)));
  CHECK(s::cast<bool>(qnan));
  CHECK_FALSE(s::cast<bool>(-0.0f));
  CHECK_FALSE(s::cast<bool>(f16(-0.0f)));
  CHECK(s::cast<bool>(e4m3(0.01f)));
}

TEST_CASE("float to float rounds once", "[scalar]") {
  const double v = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  CHECK(s::cast<bf16>(v).bits == 0x3f81);
  CHECK(s::cast<f32>(1 + std::ldexp(1, -24)) == 1.0f);
  CHECK(s::cast<bf16>(f16(1.0f + std::ldexp(1.0f, -8))).bits == 0x3f80);
  CHECK(s::cast<f16>(bf16(1e30f)).bits == 0x7c00);
  CHECK(s::cast<e4m3>(f16(inf)).bits == 0x7e);
  CHECK(s::cast<f64>(e5m2::fromBits(0x7c)) == inf);
}

TEST_CASE("arithmetic of small floats is the exact result rounded once", "[scalar]") {
  CHECK(s::add(f16(2048.0f), f16(1.0f)).bits == f16(2048.0f).bits);
  CHECK(float(s::mul(e4m3(448.0f), e4m3(448.0f))) == 448.0f);
  CHECK(s::div(f16(1.0f), f16(0.0f)).bits == 0x7c00);
  CHECK(s::isNan(s::sub(f16(inf), f16(inf))));
  CHECK(float(s::rem(f16(-7.0f), f16(2.0f))) == -1.0f);
  CHECK(s::neg(bf16(0.0f)).bits == 0x8000);
  CHECK(s::abs(e5m2(-2.0f)).bits == e5m2(2.0f).bits);
  CHECK(s::neg(1.5f) == -1.5f);
  CHECK(float(s::sqrt(f16(2.0f))) == float(f16(std::sqrt(2.0))));
  // Subnormal bf16 results, just above and just below half of the least value 2^-133: 145 * 113 = 2^14 + 1
  // and 127 * 129 = 2^14 - 1.
  auto times = [](double x, double y) {
    return s::mul(bf16(std::ldexp(x, -74)), bf16(std::ldexp(y, -74))).bits;
  };
  CHECK(times(145, 113) == 1);
  CHECK(times(128, 128) == 0);
  CHECK(times(127, 129) == 0);
}

TEST_CASE("fma of small floats rounds once", "[scalar]") {
  CHECK(s::fma(f16(2.0f), f16(3.0f), f16(1.0f)).bits == f16(7.0f).bits);
  CHECK(s::fma(f32(1 + 0x1p-12f), f32(1 - 0x1p-12f), -1.0f) == -0x1p-24f);
  // 129 + 128 = 257: a tie of bf16 between 256 and 258.
  CHECK(float(s::fma(bf16(1.0f + 0x1p-7f), bf16(128.0f), bf16(128.0f))) == 256.0f);
  // A product on a tie plus a term too small for double to see beside it: it decides all the same.
  const bf16 tiny = bf16(std::ldexp(1.0f, -100));
  const bf16 p = bf16(1.0f + 3 * 0x1p-7f), q = bf16(1.5f); // 1.53515625 = 1.53125 + 2^-8: a tie of bf16
  REQUIRE(double(float(p)) * double(float(q)) == 1.53515625);
  CHECK(float(s::fma(p, q, tiny)) == 1.5390625f);
  CHECK(float(s::fma(p, q, s::neg(tiny))) == 1.53125f);
  CHECK(float(s::fma(p, q, bf16(0.0f))) == 1.53125f);
  CHECK(float(s::fma(s::neg(p), q, s::neg(tiny))) == -1.5390625f);
  CHECK(s::isNan(s::fma(f16(inf), f16(0.0f), f16(1.0f))));
  CHECK(s::fma(f16(60000.0f), f16(60000.0f), f16(1.0f)).bits == 0x7c00);
}

TEST_CASE("visitDType reaches the host type of every element type", "[scalar]") {
  for (int i = 0; i < numDTypes; ++i) {
    const DType t = DType(i);
    const DType seen = s::visitDType(t, [](auto tag) { return dtypeOf<typename decltype(tag)::type>; });
    CHECK(seen == (t == DType::index ? DType::i64 : t));
  }
}

TEST_CASE("visitAnyDType reaches types of storage, too", "[scalar]") {
  for (int i = 0; i < numAllDTypes; ++i) {
    const DType t = DType(i);
    const DType seen = s::visitAnyDType(t, [](auto tag) { return dtypeOf<typename decltype(tag)::type>; });
    CHECK(seen == (t == DType::index ? DType::i64 : t));
  }
}

TEMPLATE_TEST_CASE("casts of types of storage: every code to every type and back", "[scalar]", e2m1, e2m3, e3m2, ue8m0) {
  using T = TestType;
  for (int code = 0; code < 256; ++code) {
    const T x = T::fromBits(std::uint8_t(code));
    const float v = float(x);
    for (int i = 0; i < numAllDTypes; ++i)
      s::visitAnyDType(DType(i), [&]<class To>(std::type_identity<To>) {
        const To got = s::cast<To>(x), want = s::cast<To>(v);
        if (!std::same_as<To, T>)
          REQUIRE(std::memcmp(&got, &want, sizeof(To)) == 0);
      });
    // Wider floats hold them all; infinity there and back saturates.
    if (!std::isnan(v) && s::cast<T>(v).bits == code) {
      REQUIRE(s::cast<T>(s::cast<f64>(x)).bits == code);
      if (!std::same_as<T, ue8m0>)
        REQUIRE((s::cast<T>(s::cast<f16>(x)).bits == code && s::cast<T>(s::cast<bf16>(x)).bits == code));
    }
  }
  CHECK(s::cast<T>(true).bits == T(1.0f).bits);
  CHECK(s::cast<T>(false).bits == T(0.0f).bits);
}

TEST_CASE("integers to types of storage round once", "[scalar]") {
  CHECK(float(s::cast<e2m1>(i32(5))) == 4);                        // tie to even
  CHECK(float(s::cast<e2m1>(i64(-1) << 62)) == -6);
  CHECK(float(s::cast<e3m2>(u8(27))) == 28);
  CHECK(s::cast<ue8m0>(i64((u64(1) << 62) - 1)).bits == 127 + 61); // toward zero, not by way of a rounded double
  CHECK(s::cast<ue8m0>(~u64(0)).bits == 127 + 63);
}
