// SPDX-License-Identifier: Apache-2.0
/// \file The math functions that kernels compute, run on the host against long double, over ranges and at
/// edges. The hardware approximations are modelled by exact values moved by their documented worst error, up
/// and down.
#include "codegen/MathAlgorithms.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <random>

namespace {
using namespace sectile;

/// The builder that computes. `wobble` in [-1, 1] moves every approximation by that part of its worst error.
struct HostMath {
  using F32 = float;
  using F64 = double;
  using I32 = std::int32_t;
  using I64 = std::int64_t;
  using Bool = bool;
  double wobble = 0;

  float f32(float c) { return c; }
  double f64(double c) { return c; }
  I32 i32(I32 c) { return c; }
  I64 i64(I64 c) { return c; }
  template <class T> T add(T x, T y) { return x + y; }
  template <class T> T sub(T x, T y) { return x - y; }
  template <class T> T mul(T x, T y) { return x * y; }
  template <class T> T div(T x, T y) { return x / y; }
  template <class T> T fma(T x, T y, T z) { return std::fma(x, y, z); }
  template <class T> T neg(T x) { return -x; }
  template <class T> T abs(T x) { return std::fabs(x); }
  template <class T> T rint(T x) { return std::nearbyint(x); }
  template <class T> T sqrt(T x) { return std::sqrt(x); }
  float minimum(float x, float y) { return x != x || y != y ? NAN : std::fmin(x, y); }
  float minimumNumber(float x, float y) { return std::fmin(x, y); }
  float mulTowardZero(float x, float y) {
    double exact = double(x) * double(y); // 48 bits
    float r = float(exact);
    return std::isfinite(exact) && std::fabs(double(r)) > std::fabs(exact) ? std::nextafter(r, 0.0f) : r;
  }
  template <class T> bool less(T x, T y) { return x < y; }
  template <class T> bool equal(T x, T y) { return x == y; }
  template <class T> bool isNan(T x) { return std::isnan(x); }
  template <class T> using U = std::make_unsigned_t<T>;
  template <class T> T iadd(T x, T y) { return T(U<T>(x) + U<T>(y)); }
  template <class T> T isub(T x, T y) { return T(U<T>(x) - U<T>(y)); }
  template <class T> T imul(T x, T y) { return T(U<T>(x) * U<T>(y)); }
  template <class T> T iand(T x, T y) { return x & y; }
  template <class T> T ior(T x, T y) { return x | y; }
  template <class T> T ixor(T x, T y) { return x ^ y; }
  template <class T> T shl(T x, int n) { return T(U<T>(x) << n); }
  template <class T> T lshr(T x, int n) { return T(U<T>(x) >> n); }
  template <class T> T ashr(T x, int n) { return x >> n; }
  I64 shlBy(I64 x, I64 n) { return shl(x, int(n)); }
  I64 lshrBy(I64 x, I64 n) { return lshr(x, int(n)); }
  template <class T> bool iless(T x, T y) { return x < y; }
  template <class T> bool iequal(T x, T y) { return x == y; }
  I64 umulHigh(I64 x, I64 y) {
    __extension__ using Wide = unsigned __int128;
    return I64(Wide(std::uint64_t(x)) * Wide(std::uint64_t(y)) >> 64);
  }
  bool both(bool c, bool d) { return c && d; }
  bool either(bool c, bool d) { return c || d; }
  bool invert(bool c) { return !c; }
  template <class T> T select(bool c, T x, T y) { return c ? x : y; }
  I32 bits(float x) { return std::bit_cast<I32>(x); }
  I64 bits(double x) { return std::bit_cast<I64>(x); }
  float real(I32 x) { return std::bit_cast<float>(x); }
  double real(I64 x) { return std::bit_cast<double>(x); }
  double widen(float x) { return x; }
  float narrow(double x) { return float(x); }
  I32 toI32(double x) { return x != x ? 0 : I32(std::fmin(std::fmax(x, -2147483648.0), 2147483647.0)); }
  template <class T> float toF32(T x) { return float(x); }
  template <class T> double toF64(T x) { return double(x); }
  double fromU64(I64 x) { return double(std::uint64_t(x)); }
  I64 wide(I32 x) { return I64(std::uint32_t(x)); }
  I32 low(I64 x) { return I32(std::uint64_t(x)); }
  float approximate(double exact, double ulps) {
    if (!std::isfinite(exact) || exact == 0)
      return float(exact);
    return float(exact * (1 + wobble * ulps * 0x1p-24));
  }
  float ex2(float x) { // 2^-22.5
    double exact = std::exp2(double(x));
    return exact < 0x1p-126 ? 0.0f : approximate(exact, 2.8284271247461901);
  }
  float rcp(float x) {
    if (std::fabs(x) < 0x1p-126f) // subnormals as zeros, here and in the result
      return std::copysign(INFINITY, x);
    double exact = 1 / double(x);
    int exponent;
    bool isPower = std::fabs(std::frexp(x, &exponent)) == 0.5f;
    std::frexp(exact, &exponent);
    float r = std::isfinite(x) ? float(exact + wobble * std::ldexp(1.0, exponent - 24)) : float(exact);
    if (!isPower && std::fabs(std::frexp(r, &exponent)) == 0.5f) // what MathAlgorithms.h asks of the machine
      r = std::bit_cast<float>(std::bit_cast<I32>(r) + (std::fabs(r) < std::fabs(exact) ? 1 : -1));
    return std::fabs(r) < 0x1p-126f ? std::copysign(0.0f, x) : r;
  }
  float rsqrtApprox(float x) { return approximate(1 / std::sqrt(double(x)), 3); }
  I64 twoOverPi(I32 n) { return I64(math::twoOverPiWords.at(std::size_t(n))); }
  template <class Then, class Else> auto branch(bool c, Then &&yes, Else &&no) { return c ? yes() : no(); }
};

/// |got - exact| in units of the last place of T at `exact`; infinite if only one is NaN or they overflow
/// apart.
template <class T> double ulps(T got, long double exact) {
  T rounded = T(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got))
    return got == rounded ? 0 : (std::fabs(exact) > 0.999L * std::numeric_limits<T>::max() ? 1 : INFINITY);
  int exponent;
  std::frexp(exact == 0 ? std::numeric_limits<T>::min() : T(exact), &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return double(std::fabs((long double)(got)-exact) /
                std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

/// Values of all sizes and signs: random bit patterns, and uniform ones in [-span, span].
template <class T> std::vector<T> samples(double span, int n) {
  std::mt19937_64 random(12345);
  std::vector<T> r;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (int k = 0; k < n; ++k) {
    r.push_back(std::bit_cast<T>(Bits(random())));
    r.push_back(T((double(random() >> 11) * 0x1p-52 - 1) * span));
  }
  for (T v : {T(0), T(1), T(2), T(0.5), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(),
              std::numeric_limits<T>::max(), std::numeric_limits<T>::infinity(),
              std::numeric_limits<T>::quiet_NaN()}) {
    r.push_back(v);
    r.push_back(-v);
    r.push_back(std::nextafter(v, T(0)));
  }
  return r;
}

/// `flushed`: results below this may be 0.
template <class T, class F, class G>
double worst(const char *name, double span, int n, F &&f, G &&g, double flushed = 0) {
  double worst = 0;
  T at = 0;
  for (double wobble : {-1.0, 0.0, 1.0}) {
    HostMath b{wobble};
    for (T x : samples<T>(span, n)) {
      T got = f(b, x);
      long double exact = g((long double)(x));
      double e = got == 0 && std::fabs(exact) < flushed ? 0 : ulps<T>(got, exact);
      if (e > worst) {
        worst = e;
        at = x;
      }
    }
  }
  std::printf("%-12s %8.3f ulp at %.17g\n", name, worst, double(at));
  return worst;
}

long double sigmoidl(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

constexpr int many = 300000;

TEST_CASE("f32 functions stay in their bounds", "[math]") {
  using B = HostMath;
  constexpr double smallest = 0x1.00001p-126;
  CHECK(worst<float>(
            "exp32", 110, many, [](B &b, float x) { return math::exp32(b, x); },
            [](long double x) { return std::exp(x); }, smallest) <= 4);
  CHECK(worst<float>(
            "log32", 4, many, [](B &b, float x) { return math::log32(b, x); },
            [](long double x) { return std::log(x); }) <= 2);
  CHECK(worst<float>(
            "log2_32", 4, many, [](B &b, float x) { return math::log2_32(b, x); },
            [](long double x) { return std::log2(x); }) <= 2);
  CHECK(worst<float>(
            "sin32", 40000, many, [](B &b, float x) { return math::sineOf32(b, x, false); },
            [](long double x) { return std::sin(x); }) <= 2);
  CHECK(worst<float>(
            "cos32", 40000, many, [](B &b, float x) { return math::sineOf32(b, x, true); },
            [](long double x) { return std::cos(x); }) <= 2);
  CHECK(worst<float>(
            "tanhSmall32", math::tanhSmallest, many,
            [](B &b, float x) { return std::fabs(x) >= math::tanhSmallest ? math::tanh32(b, x) : math::tanhSmall32(b, x); },
            [](long double x) { return std::tanh(x); }) <= 3);
  CHECK(worst<float>(
            "tanh32", 11, many, [](B &b, float x) { return math::tanh32(b, x); },
            [](long double x) { return std::tanh(x); }) <= 3);
  CHECK(worst<float>(
            "erf32", 5, many, [](B &b, float x) { return math::erf32(b, x); },
            [](long double x) { return std::erf(x); }) <= 3);
  CHECK(worst<float>(
            "sigmoid32", 110, many, [](B &b, float x) { return math::sigmoid32(b, x); }, sigmoidl,
            smallest) <= 5);
}

TEST_CASE("f64 functions stay in their bounds", "[math]") {
  using B = HostMath;
  CHECK(worst<double>(
            "exp64", 750, many, [](B &b, double x) { return math::exp64(b, x); },
            [](long double x) { return std::exp(x); }) <= 2);
  CHECK(worst<double>(
            "exp2_64", 1100, many, [](B &b, double x) { return math::exp2_64(b, x); },
            [](long double x) { return std::exp2(x); }) <= 2);
  CHECK(worst<double>(
            "log64", 4, many, [](B &b, double x) { return math::log64(b, x); },
            [](long double x) { return std::log(x); }) <= 2);
  CHECK(worst<double>(
            "log2_64", 4, many, [](B &b, double x) { return math::log2_64(b, x); },
            [](long double x) { return std::log2(x); }) <= 1);
  CHECK(worst<double>(
            "sin64", 1e6, many, [](B &b, double x) { return math::sineOf64(b, x, false); },
            [](long double x) { return std::sin(x); }) <= 3);
  CHECK(worst<double>(
            "cos64", 1e6, many, [](B &b, double x) { return math::sineOf64(b, x, true); },
            [](long double x) { return std::cos(x); }) <= 3);
  CHECK(worst<double>(
            "tanh64", 20, many, [](B &b, double x) { return math::tanh64(b, x); },
            [](long double x) { return std::tanh(x); }) <= 4);
  CHECK(worst<double>(
            "erf64", 6, many, [](B &b, double x) { return math::erf64(b, x); },
            [](long double x) { return std::erf(x); }) <= 4);
  CHECK(worst<double>(
            "sigmoid64", 750, many, [](B &b, double x) { return math::sigmoid64(b, x); }, sigmoidl) <= 4);
}

template <class T, class F> double worstPower(F &&f, double limit) {
  std::mt19937_64 random(7);
  HostMath b;
  double worst = 0;
  auto unit = [&] { return double(random() >> 11) * 0x1p-53; };
  for (int k = 0; k < many; ++k) {
    T x = T(std::exp2((unit() - 0.5) * 20)),
      y = T((unit() - 0.5) * 2 * limit / std::max(1.0, std::fabs(std::log2(double(x)))));
    if (k % 3 == 0)
      x = T(1 + (unit() - 0.5) * 0.01);
    if (k % 5 == 0)
      y = T(std::nearbyint(double(y)));
    if (k % 10 == 0)
      x = -x;
    worst = std::max(worst, ulps<T>(f(b, x, y), std::pow((long double)(x), (long double)(y))));
  }
  return worst;
}

TEST_CASE("pow stays in its bounds and has C's values at the edges", "[math]") {
  auto pow32 = [](HostMath &b, float x, float y) { return math::pow32(b, x, y); };
  auto pow64 = [](HostMath &b, double x, double y) { return math::pow64(b, x, y); };
  double e32 = worstPower<float>(pow32, 150), e64 = worstPower<double>(pow64, 1070);
  std::printf("pow32 %.3f ulp, pow64 %.3f ulp\n", e32, e64);
  CHECK(e32 <= 1);
  CHECK(e64 <= 4);
  HostMath b;
  const double edges[] = {0.0, -0.0, 1.0,   -1.0,   2.0,      -2.0,      3.0, -3.0,
                          0.5, -0.5, 1e300, -1e300, INFINITY, -INFINITY, NAN};
  for (double x : edges)
    for (double y : edges) {
      CAPTURE(x, y);
      double got = pow64(b, x, y), want = std::pow(x, y);
      bool same = std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
      CHECK((same || ulps<double>(got, want) <= 4));
      float x32 = float(x), y32 = float(y), got32 = pow32(b, x32, y32), want32 = std::pow(x32, y32);
      CHECK((std::isnan(want32) ? std::isnan(got32) : ulps<float>(got32, want32) <= 1));
    }
}

float fromMantissa(std::uint64_t m) {
  return std::bit_cast<float>(0x3f800000u | (std::uint32_t(m) & 0x7fffffu));
}

TEST_CASE("one step of Newton rounds every reciprocal right from any approximation within an ulp", "[math]") {
  struct Start : HostMath {
    float start = 0;
    float rcp(float) { return start; }
  } b;
  int wrong = 0;
  for (std::uint32_t m = 0; m < 1u << 23; ++m) {
    float s = fromMantissa(m), want = 1 / s;
    double ulp = m == 0 ? 0x1p-23 : 0x1p-24;
    for (int step = -1; step <= 1; ++step) {
      b.start = std::bit_cast<float>(std::bit_cast<std::int32_t>(want) + step);
      if (std::fabs(double(b.start) - 1 / double(s)) <= ulp && math::reciprocal32(b, s) != want) {
        CHECK(m == (1u << 23) - 1); // the one that the comment names
        CHECK(b.start == 0.5f);
        ++wrong;
      }
    }
  }
  CHECK(wrong == 1);
}

/// With mantissas as integers A and B of 24 bits, A/B is nearest to a midpoint M of 25 bits where j = A 2^k -
/// B M is small (k = 24 for A >= B, else 25). The last step is off by less than (2/B + 1.5) units of 2^-48
/// for 1 <= B < 2 and A < B, and by less than two units of 2^-48 for A >= B, while the midpoint is |j|/B or
/// 2|j|/B of these units away: beyond |j| = 5 nothing can go wrong. All smaller ones are tried.
TEST_CASE("the fast quotient is right for every divisor at every numerator that could fail", "[math]") {
  HostMath b;
  std::uint64_t tried = 0, wrong = 0;
  constexpr int most = 6;
  for (std::uint64_t divisor = 1u << 23; divisor < 1u << 24; ++divisor) {
    int twos = std::countr_zero(divisor);
    if (1 << twos > most)
      continue; // j is a multiple
    float s = fromMantissa(divisor), r = 1 / s;
    std::uint64_t odd = divisor >> twos, inverse = odd; // modulo 2^64, by Newton
    for (int n = 0; n < 5; ++n)
      inverse *= 2 - odd * inverse;
    for (int k : {24, 25})
      for (std::int64_t j = -most; j <= most; ++j) {
        if (j == 0 || j & ((1 << twos) - 1))
          continue;
        std::uint64_t modulus = std::uint64_t(1) << (k - twos);
        for (std::uint64_t mid = std::uint64_t(-(j >> twos)) * inverse & (modulus - 1); mid < 1u << 25;
             mid += modulus) {
          if (mid < 1u << 24 || mid % 2 == 0)
            continue;
          std::uint64_t numerator = (divisor * mid + std::uint64_t(j)) >> k;
          if (numerator < 1u << 23 || numerator >= 1u << 24 || (numerator >= divisor) != (k == 24))
            continue;
          float x = fromMantissa(numerator);
          ++tried;
          wrong += math::quotient32(b, x, s, r) != x / s;
        }
      }
  }
  std::printf("%llu hard quotients\n", (unsigned long long)tried);
  CHECK(tried > 10000000);
  CHECK(wrong == 0);
}

TEST_CASE("where the checks of the fast quotients pass, they are right to the bit", "[math]") {
  std::mt19937_64 random(99);
  auto any = [&] { return std::bit_cast<float>(std::uint32_t(random())); };
  auto near = [&](float v, int spread) { // near in exponent, any mantissa
    std::int32_t bits = std::bit_cast<std::int32_t>(v) & 0x7f800000;
    bits += (std::int32_t(random() % unsigned(2 * spread + 1)) - spread) << 23;
    bits = std::clamp(bits, 0, 0x7f800000) | std::int32_t(random() & 0x807fffff);
    return std::bit_cast<float>(bits);
  };
  const float edges[] = {0.0f,
                         1.0f,
                         2.0f,
                         0x1.fffffep+0f,
                         0x1.fffffep+100f,
                         0x1p-126f,
                         0x1p-149f,
                         0x1.fffffcp-127f,
                         0x1p-125f,
                         0x1p-100f,
                         0x1p-99f,
                         0x1p125f,
                         0x1p126f,
                         0x1p127f,
                         0x1.fffffep+127f,
                         0x1.000002p+126f,
                         INFINITY,
                         NAN};
  std::uint64_t passed = 0, zeros = 0, wrong = 0;
  auto same = [](float p, float q) {
    return (std::isnan(p) && std::isnan(q)) ||
           std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
  };
  auto check = [&](float x, float s) {
    for (double wobble : {-0.5, 0.0, 0.5}) {
      HostMath b{wobble};
      math::Divisor32<HostMath> d = math::divisor32(b, s);
      float q = math::quotient32(b, x, s, d.reciprocal);
      if (std::fabs(q) >= d.least || (x == 0 && d.keepsZeros)) {
        ++passed;
        zeros += x == 0;
        wrong += !same(q, x / s);
      }
      float r = math::reciprocal32(b, s);
      q = math::quotient32(b, x, s, r);
      if (math::quotientSafety32(b, x, q) >= 0x1p-100f || (x == 0 && s > 0 && q == 0)) {
        ++passed;
        if (!same(q, x / s)) {
          ++wrong;
          std::printf("%a / %a: %a\n", double(x), double(s), double(q));
        }
      }
    }
  };
  for (float x : edges)
    for (float s : edges)
      for (float xs : {x, -x})
        for (float ss : {s, -s})
          check(xs, ss);
  for (int n = 0; n < 3000000; ++n) {
    check(any(), any());
    check(near(0x1p-100f, 6), near(1.0f, 4)); // remainders at the end of the range
    float s = any();
    check(near(s, 3), s);
  }
  for (int n = 0; n < 300000; ++n) {
    check(near(0x1p-100f, 30), near(0x1p20f, 40));
    check(near(0x1p-120f, 10), near(0x1p-120f, 10));
    check(near(0x1p120f, 10), near(0x1p-10f, 20));
    check(near(0x1p100f, 30), near(0x1p124f, 4));
    check(std::copysign(0.0f, any()), any());
  }
  std::printf("%llu quotients by the fast way, %llu of them of zeros\n", (unsigned long long)passed,
              (unsigned long long)zeros);
  CHECK(passed > 10000000);
  CHECK(zeros > 100000);
  CHECK(wrong == 0);
}

TEST_CASE("infinities, zeros and signs", "[math]") {
  HostMath b;
  CHECK(math::exp32(b, -INFINITY) == 0);
  CHECK(math::exp32(b, INFINITY) == INFINITY);
  CHECK(std::isnan(math::exp32(b, NAN)));
  CHECK(math::exp32(b, 0.0f) == 1);
  CHECK(math::exp32(b, 0x1.62e42ep+6f) < INFINITY); // the last finite one
  CHECK(math::exp32(b, 0x1.62e432p+6f) == INFINITY);
  CHECK(math::exp32(b, 0x1.fffffep+127f) == INFINITY);
  CHECK(math::exp32(b, -0x1.fffffep+127f) == 0);
  CHECK(math::exp32(b, -88.0f) == 0); // below 2^-126
  CHECK(math::sigmoid32(b, -INFINITY) == 0);
  CHECK(math::sigmoid32(b, INFINITY) == 1);
  CHECK(std::isnan(math::sigmoid32(b, NAN)));
  CHECK(math::log32(b, -0.0f) == -INFINITY);
  CHECK(std::isnan(math::log32(b, -1.0f)));
  CHECK(std::isnan(math::sineOf32(b, INFINITY, false)));
  CHECK(std::signbit(math::sineOf32(b, -0.0f, false)));
  CHECK(std::signbit(math::sineOf64(b, -0.0, false)));
  CHECK(std::signbit(math::tanh32(b, -0.0f)));
  CHECK(std::signbit(math::erf64(b, -0.0)));
  CHECK(math::tanh64(b, -INFINITY) == -1);
  CHECK(math::sigmoid64(b, -INFINITY) == 0);
}

} // namespace
