// SPDX-License-Identifier: Apache-2.0
/// \file The math functions as algorithms over a builder: the code generator instantiates them with one that
/// emits LLVM IR, the tests with one that computes on the host. Plain C++, no LLVM.
///
/// A builder B has the value types B::F32, F64, I32, I64, Bool and
/// - constants f32(c), f64(c), i32(c), i64(c);
/// - floats: add sub mul div fma neg abs rint sqrt, less equal isNan, each on F32 or F64, every one rounding
/// once; XXegers (wrapping): iadd isub imul iand ior ixor shl lshr ashr (counts are ints, but shlBy lshrBy
/// take values),
///   iless (signed) iequal, umulHigh on I64;
/// - both(c, d), either(c, d), invert(c) on Bool; select(c, x, y) on any type;
/// - bits(F) and real(I) between a float and the integer of its bits;
/// - widen F32 -> F64, narrow F64 -> F32, toI32 (truncating) on floats in range, toF32, toF64 on I32 and I64
/// (signed),
///   wide(I32) -> I64 (zero extended), low(I64) -> I32, fromU64(I64) -> F64 (unsigned);
/// - ex2(F32): 2^x within 2^-22.5 of its size, any x, 0 below 2^-126; rcp(F32): 1/x within 1 ulp, subnormals
/// as zeros; rsqrtApprox(F32) within 2 ulp;
/// - twoOverPi(I32): word n of the table below;
/// - branch(cond, then, else): both return a std::tuple of values; only the chosen one runs.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <tuple>

namespace sectile::math {

/// 2/pi in binary, after 64 zero bits: word 1 has weights 2^-1 ... 2^-64.
inline constexpr std::array<std::uint64_t, 20> twoOverPiWords = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

inline constexpr float inf32 = std::numeric_limits<float>::infinity();
inline constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();
inline constexpr double inf64 = std::numeric_limits<double>::infinity();
inline constexpr double nan64 = std::numeric_limits<double>::quiet_NaN();

/// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
template <class B, std::size_t N> typename B::F32 poly(B &b, typename B::F32 x, const float (&c)[N]) {
  auto r = b.f32(c[N - 1]);
  for (std::size_t k = N - 1; k-- > 0;)
    r = b.fma(r, x, b.f32(c[k]));
  return r;
}
template <class B, std::size_t N> typename B::F64 poly(B &b, typename B::F64 x, const double (&c)[N]) {
  auto r = b.f64(c[N - 1]);
  for (std::size_t k = N - 1; k-- > 0;)
    r = b.fma(r, x, b.f64(c[k]));
  return r;
}

/// |x| with the sign of s.
template <class B> typename B::F32 withSign32(B &b, typename B::F32 x, typename B::F32 s) {
  return b.real(
      b.ior(b.iand(b.bits(x), b.i32(0x7fffffff)), b.iand(b.bits(s), b.i32(std::int32_t(0x80000000u)))));
}
template <class B> typename B::F64 withSign64(B &b, typename B::F64 x, typename B::F64 s) {
  constexpr std::int64_t sign = std::numeric_limits<std::int64_t>::min();
  return b.real(b.ior(b.iand(b.bits(x), b.i64(~sign)), b.iand(b.bits(s), b.i64(sign))));
}

// --- f32
// ----------------------------------------------------------------------------------------------------------

/// Correctly rounded division without the checks of the machine's: with r = RN(1/s) the remainder of x * r,
/// brought back, gives RN(x / s), unless something leaves the range of normal numbers or a remainder loses
/// bits below 2^-149. The tests try every divisor with all numerators whose quotients lie near a midpoint
/// between two floats, as far as the error before the last rounding can reach.
///
/// Signs: s > 0 keeps the sign of a zero x; s < 0 does not.
template <class B> typename B::F32 quotient32(B &b, typename B::F32 x, typename B::F32 s, typename B::F32 r) {
  auto q = b.mul(x, r);
  auto rest = b.fma(q, s, b.neg(x));
  return b.fma(rest, b.neg(r), q);
}
/// RN(1/s) for 2^-126 <= |s| <= 2^126 from an approximation within one ulp, by one step of Newton. Alone of
/// all mantissas that of ones only, 2 - 2^-23, has an approximation in that range (1/2) that the step leaves
/// wrong.
template <class B> typename B::F32 reciprocal32(B &b, typename B::F32 s) {
  auto y = b.rcp(s);
  auto rest = b.fma(b.neg(s), y, b.f32(1.0f));
  return b.fma(rest, y, y);
}
/// A divisor of many numerators. quotient32(x, s, reciprocal) is x / s if its size is at least `least` (NaN
/// is not: an infinite or NaN x, an overflow), and for x = 0 if `keepsZeros`.
template <class B> struct Divisor32 {
  typename B::F32 s, reciprocal, least; ///< least is NaN for a divisor that does not suit
  typename B::Bool keepsZeros;
};
template <class B> Divisor32<B> divisor32(B &b, typename B::F32 s) {
  auto r = reciprocal32(b, s), size = b.abs(s);
  auto suits = b.both(b.less(b.f32(0x1p-125f), size), b.less(size, b.f32(0x1p125f)));
  suits = b.both(suits, b.invert(b.iequal(b.iand(b.bits(s), b.i32(0x7fffff)), b.i32(0x7fffff))));
  // Normal, and |q s| >= 2^-100: the remainder's last bit is then at 2^-149 or above.
  auto bound = b.mul(b.abs(r), b.f32(0x1p-100f));
  bound = b.select(b.less(bound, b.f32(0x1p-125f)), b.f32(0x1p-125f), bound);
  return {s, r, b.select(suits, bound, b.f32(nan32)), b.both(suits, b.less(b.f32(0.0f), s))};
}
/// For divisors of their own: q = quotient32(x, s, reciprocal32(s)) is x / s if this is at least 2^-100.
/// Divisors without a normal reciprocal give NaN or 0 there. For
/// x = 0 and s > 0 the result is right if it is a zero. Of the mantissa of ones the machine's
/// approximation must not be 1/2; ptxas expands div.rn.f32 into the same step and relies on that too.
template <class B> typename B::F32 quotientSafety32(B &b, typename B::F32 x, typename B::F32 q) {
  return b.minimum(b.abs(x), b.abs(q));
}

/// 2^high * (1 + low) with x = high * ln 2 + low. high is x log2 e rounded toward zero, so that it stays
/// below 128 where the result is finite, and low has the sign of x: no infinity meets a negative factor.
/// Where low is inf - inf, the minimum makes it 1. Results below 2^-126 become 0. `negated`: of -x.
template <class B> typename B::F32 exp32(B &b, typename B::F32 x, bool negated = false) {
  auto high = b.mulTowardZero(x, b.f32(negated ? -0x1.715476p+0f : 0x1.715476p+0f));
  auto low = b.fma(high, b.f32(-0x1.62e43p-1f), negated ? b.neg(x) : x);
  low = b.minimumNumber(b.fma(high, b.f32(0x1.05c61p-29f), low), b.f32(1.0f));
  auto power = b.ex2(high);
  return b.fma(power, low, power);
}

/// Negative x: the sum's relative error is that of e^-x, so small results keep their digits, down to 2^-126.
template <class B> typename B::F32 sigmoid32(B &b, typename B::F32 x) {
  return b.rcp(b.add(exp32(b, x, /*negated=*/true), b.f32(1.0f)));
}

/// x = 2^e * m with m in [2/3, 4/3): e and ln m, the latter by a polynomial in m - 1.
template <class B> std::tuple<typename B::F32, typename B::F32> logParts32(B &b, typename B::F32 x) {
  static constexpr float c[] = {0x1.555556p-2f,  -0x1.ffff0ep-3f, 0x1.99977ap-3f,
                                -0x1.55995ap-3f, 0x1.24f506p-3f,  -0x1.f37f84p-4f,
                                0x1.b87202p-4f,  -0x1.072afap-3f, 0x1.ec058cp-4f};
  auto tiny = b.less(x, b.f32(0x1p-126f)); // subnormal
  auto scaled = b.select(tiny, b.mul(x, b.f32(0x1p23f)), x);
  auto i = b.bits(scaled);
  auto e = b.ashr(b.isub(i, b.i32(0x3f2aaaab)), 23);
  auto m = b.real(b.isub(i, b.shl(e, 23)));
  auto f = b.sub(m, b.f32(1.0f));
  auto r = poly(b, f, c);
  auto f2 = b.mul(f, f);
  auto p = b.fma(b.mul(f2, f), r, b.mul(f2, b.f32(-0.5f)));
  e = b.isub(e, b.select(tiny, b.i32(23), b.i32(0)));
  return {b.toF32(e), b.add(f, p)};
}
/// The values that the formula does not give: zero, negative numbers, infinity, NaN.
template <class B> typename B::F32 logEdges32(B &b, typename B::F32 x, typename B::F32 r) {
  r = b.select(b.equal(x, b.f32(inf32)), x, r);
  r = b.select(b.less(x, b.f32(0.0f)), b.f32(nan32), r);
  r = b.select(b.equal(x, b.f32(0.0f)), b.f32(-inf32), r);
  return b.select(b.isNan(x), b.f32(nan32), r);
}
template <class B> typename B::F32 log32(B &b, typename B::F32 x) {
  auto [e, p] = logParts32(b, x);
  auto r = b.fma(e, b.f32(0x1.62e4p-1f), b.fma(e, b.f32(0x1.7f7d1cp-20f), p)); // e * 16 bits is exact
  return logEdges32(b, x, r);
}
template <class B> typename B::F32 log2_32(B &b, typename B::F32 x) {
  auto [e, p] = logParts32(b, x);
  auto r = b.fma(p, b.f32(0x1.715476p+0f), b.fma(p, b.f32(0x1.4ae0cp-26f), e));
  return logEdges32(b, x, r);
}

/// |x| * 2/pi modulo 4 for any finite x, by exact multiplication with the bits of 2/pi that matter (Payne,
/// Hanek): the nearest quadrant and the remaining angle.
template <class B> std::tuple<typename B::F32, typename B::I32> reduceLarge32(B &b, typename B::F32 x) {
  auto i = b.bits(x);
  auto m = b.wide(b.ior(b.iand(i, b.i32(0x7fffff)), b.i32(0x800000)));
  auto exponent =
      b.isub(b.iand(b.lshr(i, 23), b.i32(0xff)), b.i32(150)); // |x| = m * 2^exponent, exponent >= -23
  // Weights 2^(1-exponent) and up give whole turns; take 128 bits from there.
  auto position = b.iadd(exponent, b.i32(62));
  auto word = b.lshr(position, 6), shift = b.iand(position, b.i32(63));
  auto w0 = b.twoOverPi(word), w1 = b.twoOverPi(b.iadd(word, b.i32(1))),
       w2 = b.twoOverPi(b.iadd(word, b.i32(2)));
  auto left = b.wide(shift), right = b.wide(b.isub(b.i32(63), shift));
  auto join = [&](auto high, auto low) { // (high << s) | (low >> (64 - s)), for s = 0 too
    return b.ior(b.shlBy(high, left), b.lshrBy(b.lshr(low, 1), right));
  };
  auto high = join(w0, w1), low = join(w1, w2);
  auto product = b.iadd(b.imul(m, high), b.umulHigh(m, low)); // upper half of m * window, modulo 4 turns
  auto quadrant = b.low(b.lshr(b.iadd(product, b.i64(std::int64_t(1) << 61)), 62));
  auto angle = b.mul(b.toF64(b.shl(product, 2)), b.f64(0x1.921fb54442d18p-64));
  return {b.narrow(angle), quadrant};
}
/// x = quadrant * pi/2 + angle, |angle| <= pi/4 or a little more.
template <class B> std::tuple<typename B::F32, typename B::I32> reduce32(B &b, typename B::F32 x) {
  auto q = b.rint(b.mul(x, b.f32(0x1.45f306p-1f)));
  auto near = [&] {
    auto r = b.fma(q, b.f32(-0x1.921fb6p+0f), x);
    r = b.fma(q, b.f32(0x1.777a5cp-25f), r);
    r = b.fma(q, b.f32(0x1.ee59dap-50f), r);
    return std::tuple<typename B::F32, typename B::I32>(r, b.toI32(q));
  };
  auto far = [&] {
    auto [r, quadrant] = reduceLarge32(b, x);
    auto negative = b.less(x, b.f32(0.0f));
    return std::tuple<typename B::F32, typename B::I32>(
        b.select(negative, b.neg(r), r), b.select(negative, b.isub(b.i32(0), quadrant), quadrant));
  };
  return b.branch(b.less(b.abs(x), b.f32(0x1p15f)), near, far);
}
/// sin (or cos, a quarter turn ahead) of quadrant * pi/2 + r.
template <class B> typename B::F32 sineOf32(B &b, typename B::F32 x, bool cosine) {
  static constexpr float s[] = {-0x1.555546p-3f, 0x1.110756p-7f, -0x1.994b4p-13f};
  static constexpr float c[] = {0x1.55554ap-5f, -0x1.6c0c82p-10f, 0x1.99ff4p-16f};
  auto [r, q] = reduce32(b, x);
  if (cosine)
    q = b.iadd(q, b.i32(1));
  auto z = b.mul(r, r);
  auto sine = b.fma(b.mul(poly(b, z, s), z), r, r);
  auto cos = b.fma(b.mul(poly(b, z, c), z), z, b.fma(z, b.f32(-0.5f), b.f32(1.0f)));
  auto v = b.select(b.iequal(b.iand(q, b.i32(1)), b.i32(0)), sine, cos);
  v = b.select(b.iequal(b.iand(q, b.i32(2)), b.i32(0)), v, b.neg(v));
  if (!cosine)
    v = b.select(b.equal(x, b.f32(0.0f)), x, v); // -0
  return b.select(b.less(b.abs(x), b.f32(inf32)), v, b.f32(nan32));
}

/// tanh of |x| < tanhSmallest, without the hardware's functions.
inline constexpr float tanhSmallest = 0.35f;
template <class B> typename B::F32 tanhSmall32(B &b, typename B::F32 x) {
  static constexpr float c[] = {-0x1.555506p-2f, 0x1.10b6dcp-3f, -0x1.9af02ep-5f};
  auto z = b.mul(x, x);
  return b.fma(b.mul(poly(b, z, c), z), x, x);
}

template <class B> typename B::F32 tanh32(B &b, typename B::F32 x) {
  static constexpr float c[] = {-0x1.55553ap-2f, 0x1.1108f2p-3f, -0x1.b87c6p-5f, 0x1.53e2b2p-6f,
                                -0x1.7e18aep-8f};
  auto a = b.abs(x);
  auto z = b.mul(x, x);
  auto small = b.fma(b.mul(poly(b, z, c), z), x, x);
  auto e = b.ex2(b.mul(a, b.f32(0x1.715476p+1f))); // e^(2|x|)
  auto large = b.fma(b.rcp(b.add(e, b.f32(1.0f))), b.f32(-2.0f), b.f32(1.0f));
  return withSign32(b, b.select(b.less(a, b.f32(0.6f)), small, large), x);
}

template <class B> typename B::F32 erf32(B &b, typename B::F32 x) {
  static constexpr float c[] = {0x1.06eba8p-3f, -0x1.81273ep-2f,  0x1.ce2cf2p-4f, -0x1.b7f8acp-6f,
                                0x1.54027ap-8f, -0x1.a3de34p-11f, 0x1.4922e4p-14f};
  // log2 of 1 - erf on [1, 4]
  static constexpr float t[] = {-0x1.f83696p-12f, -0x1.a0479ap+0f, -0x1.d7556ep-1f, -0x1.30c586p-3f,
                                0x1.0254d4p-5f,   -0x1.172742p-8f, 0x1.1aaae2p-12f};
  auto a = b.abs(x);
  auto small = b.fma(poly(b, b.mul(x, x), c), x, x);
  auto bounded = b.select(b.less(b.f32(4.0f), a), b.f32(4.0f), a); // NaN stays
  auto large = b.sub(b.f32(1.0f), b.ex2(poly(b, bounded, t)));
  return b.select(b.less(a, b.f32(1.0f)), small, withSign32(b, large, x));
}

// --- f64
// ----------------------------------------------------------------------------------------------------------

/// p * 2^n for -2200 < n < 2200 with one rounding: in two steps, the first of them exact.
template <class B> typename B::F64 scale64(B &b, typename B::F64 p, typename B::I32 n) {
  auto half = b.ashr(n, 1), rest = b.isub(n, half);
  auto power = [&](auto k) { return b.real(b.shl(b.wide(b.iadd(k, b.i32(1023))), 52)); };
  return b.mul(b.mul(p, power(half)), power(rest));
}
/// e^r - 1 for |r| <= 0.35: r + r^2 (1/2 + r/6 + ...).
template <class B> typename B::F64 expm1Core64(B &b, typename B::F64 r) {
  static constexpr double c[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                 1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  return b.fma(b.mul(r, r), poly(b, r, c), r);
}
/// Keeps x in [low, high]; NaN stays.
template <class B> typename B::F64 clamp64(B &b, typename B::F64 x, double low, double high) {
  x = b.select(b.less(x, b.f64(low)), b.f64(low), x);
  return b.select(b.less(b.f64(high), x), b.f64(high), x);
}
template <class B> std::tuple<typename B::F64, typename B::I32> expReduce64(B &b, typename B::F64 x) {
  auto n = b.rint(b.mul(x, b.f64(0x1.71547652b82fep+0)));
  auto r = b.fma(n, b.f64(-0x1.62e42fefa39efp-1), x);
  r = b.fma(n, b.f64(-0x1.abc9e3b39803fp-56), r);
  auto safe = b.select(b.isNan(n), b.f64(0.0), n);
  return {r, b.toI32(safe)};
}
template <class B> typename B::F64 exp64(B &b, typename B::F64 x) {
  auto [r, n] = expReduce64(b, clamp64(b, x, -750.0, 720.0));
  return scale64(b, b.add(expm1Core64(b, r), b.f64(1.0)), n);
}
/// 2^(x + xLow), |xLow| small.
template <class B> typename B::F64 exp2Sum64(B &b, typename B::F64 x, typename B::F64 xLow) {
  x = clamp64(b, x, -1100.0, 1100.0);
  auto n = b.rint(x);
  auto f = b.sub(x, n), ln2 = b.f64(0x1.62e42fefa39efp-1);
  auto r = b.mul(f, ln2);
  auto low = b.fma(f, ln2, b.neg(r));
  low = b.fma(f, b.f64(0x1.abc9e3b39803fp-56), low);
  low = b.fma(xLow, ln2, low);
  auto m = expm1Core64(b, r);
  // e^(r + low) = 1 + m + low (1 + m)
  auto p = b.add(b.f64(1.0), b.add(m, b.fma(low, m, low)));
  auto safe = b.select(b.isNan(n), b.f64(0.0), n);
  return scale64(b, p, b.toI32(safe));
}
template <class B> typename B::F64 exp2_64(B &b, typename B::F64 x) { return exp2Sum64(b, x, b.f64(0.0)); }
template <class B> typename B::F64 sigmoid64(B &b, typename B::F64 x) {
  auto e = exp64(b, b.neg(b.abs(x)));
  auto numerator = b.select(b.less(x, b.f64(0.0)), e, b.f64(1.0));
  return b.div(numerator, b.add(e, b.f64(1.0)));
}
/// With m = e^(2|x|) - 1: m / (m + 2).
template <class B> typename B::F64 tanh64(B &b, typename B::F64 x) {
  auto a = b.abs(x);
  auto twice = clamp64(b, b.add(a, a), 0.0, 50.0);
  auto [r, n] = expReduce64(b, twice);
  auto core = expm1Core64(b, r);
  auto power = scale64(b, b.f64(1.0), n);
  auto m = b.fma(core, power, b.sub(power, b.f64(1.0)));
  return withSign64(b, b.div(m, b.add(m, b.f64(2.0))), x);
}

/// x = 2^e * m, m in [sqrt 1/2, sqrt 2), f = m - 1 and s = f / (2 + f): ln m = 2 atanh s = f - f^2/2 + s
/// (f^2/2 + R), R = s^2 (2/3 + 2/5 s^2 + ...).
template <class B> struct LogParts64 {
  typename B::F64 e, f, half, s, r; ///< half = f^2 / 2
};
template <class B> LogParts64<B> logParts64(B &b, typename B::F64 x) {
  static constexpr double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  auto tiny = b.less(x, b.f64(0x1p-1022));
  auto scaled = b.select(tiny, b.mul(x, b.f64(0x1p54)), x);
  auto i = b.bits(scaled);
  auto e = b.ashr(b.isub(i, b.i64(0x3fe6a09e667f3bcd)), 52);
  auto m = b.real(b.isub(i, b.shl(e, 52)));
  auto f = b.sub(m, b.f64(1.0));
  auto s = b.div(f, b.add(f, b.f64(2.0)));
  auto z = b.mul(s, s);
  auto r = b.mul(z, poly(b, z, c));
  e = b.isub(e, b.select(tiny, b.i64(54), b.i64(0)));
  return {b.toF64(e), f, b.mul(b.mul(f, f), b.f64(0.5)), s, r};
}
template <class B> typename B::F64 logEdges64(B &b, typename B::F64 x, typename B::F64 r) {
  r = b.select(b.equal(x, b.f64(inf64)), x, r);
  r = b.select(b.less(x, b.f64(0.0)), b.f64(nan64), r);
  r = b.select(b.equal(x, b.f64(0.0)), b.f64(-inf64), r);
  return b.select(b.isNan(x), b.f64(nan64), r);
}
template <class B> typename B::F64 log64(B &b, typename B::F64 x) {
  auto p = logParts64(b, x);
  auto tail = b.fma(p.s, b.add(p.half, p.r), b.mul(p.e, b.f64(0x1.473de6af278edp-34)));
  auto r = b.sub(p.f, b.sub(p.half, tail));
  r = b.fma(p.e, b.f64(0x1.62e42fefp-1), r); // e * 33 bits is exact
  return logEdges64(b, x, r);
}
/// log2 x as high + low for finite x > 0, to about 2^-65 of its size: ln m = 2s + s R in two parts, from a
/// quotient in two parts.
template <class B> std::tuple<typename B::F64, typename B::F64> log2Sum64(B &b, typename B::F64 x) {
  auto p = logParts64(b, x);
  auto d = b.add(p.f, b.f64(2.0));
  auto dLow = b.sub(p.f, b.sub(d, b.f64(2.0)));
  auto sLow = b.div(b.fma(b.neg(p.s), dLow, b.fma(b.neg(p.s), d, p.f)), d);
  // z = s^2 and c = z (2/3 + q(z)) with the first coefficient in two parts
  auto z = b.mul(p.s, p.s);
  auto zLow = b.fma(p.s, p.s, b.neg(z));
  zLow = b.fma(b.add(p.s, p.s), sLow, zLow);
  auto third = b.f64(0x1.5555555555555p-1), thirdLow = b.f64(0x1.5555555555555p-55);
  auto head = b.mul(z, third);
  auto headLow = b.fma(z, third, b.neg(head));
  headLow = b.add(headLow, b.fma(zLow, third, b.mul(z, thirdLow)));
  static constexpr double c[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  auto rest = b.mul(b.mul(z, z), poly(b, z, c)); // the higher terms, below 1/1000 of the whole
  auto u = b.add(b.f64(2.0), head);
  auto uLow = b.add(b.sub(head, b.sub(u, b.f64(2.0))), b.add(headLow, rest));
  // ln m = s * u
  auto ln = b.mul(p.s, u);
  auto lnLow = b.fma(p.s, u, b.neg(ln));
  lnLow = b.add(lnLow, b.fma(p.s, uLow, b.mul(sLow, u)));
  // times 1 / ln 2, plus e
  auto scale = b.f64(0x1.71547652b82fep+0);
  auto t = b.mul(ln, scale);
  auto tLow = b.fma(ln, scale, b.neg(t));
  tLow = b.add(tLow, b.fma(lnLow, scale, b.mul(ln, b.f64(0x1.777d0ffda0d24p-56))));
  auto sum = b.add(p.e, t);
  auto sumLow = b.select(b.less(b.abs(p.e), b.f64(0.5)), b.f64(0.0), b.sub(t, b.sub(sum, p.e)));
  sumLow = b.add(sumLow, tLow);
  auto high = b.add(sum, sumLow);
  return {high, b.sub(sumLow, b.sub(high, sum))};
}
template <class B> typename B::F64 log2_64(B &b, typename B::F64 x) {
  auto [high, low] = log2Sum64(b, x);
  return logEdges64(b, x, high);
}

/// As reduceLarge32, with 192 bits.
template <class B> std::tuple<typename B::F64, typename B::I32> reduceLarge64(B &b, typename B::F64 x) {
  auto i = b.bits(x);
  auto m = b.ior(b.iand(i, b.i64(0xfffffffffffff)), b.i64(0x10000000000000));
  auto exponent = b.isub(b.low(b.iand(b.lshr(i, 52), b.i64(0x7ff))), b.i32(1075)); // >= -52
  auto position = b.iadd(exponent, b.i32(62));
  auto word = b.lshr(position, 6), shift = b.iand(position, b.i32(63));
  auto at = [&](int n) { return b.twoOverPi(b.iadd(word, b.i32(n))); };
  auto w0 = at(0), w1 = at(1), w2 = at(2), w3 = at(3);
  auto left = b.wide(shift), right = b.wide(b.isub(b.i32(63), shift));
  auto join = [&](auto high, auto low) {
    return b.ior(b.shlBy(high, left), b.lshrBy(b.lshr(low, 1), right));
  };
  auto a = join(w0, w1), c = join(w1, w2), d = join(w2, w3);
  auto middle = b.iadd(b.imul(m, c), b.umulHigh(m, d));
  // Unsigned: a sum below a summand has wrapped.
  auto top = std::numeric_limits<std::int64_t>::min();
  auto carry = b.iless(b.ixor(middle, b.i64(top)), b.ixor(b.imul(m, c), b.i64(top)));
  auto product = b.iadd(b.iadd(b.imul(m, a), b.umulHigh(m, c)), b.select(carry, b.i64(1), b.i64(0)));
  auto quadrant = b.low(b.lshr(b.iadd(product, b.i64(std::int64_t(1) << 61)), 62));
  auto high = b.ior(b.shl(product, 2), b.lshr(middle, 62)), low = b.shl(middle, 2);
  auto fraction = b.fma(b.fromU64(low), b.f64(0x1p-64), b.toF64(high));
  return {b.mul(fraction, b.f64(0x1.921fb54442d18p-64)), quadrant};
}
template <class B> std::tuple<typename B::F64, typename B::I32> reduce64(B &b, typename B::F64 x) {
  auto near = [&] {
    auto q = b.rint(b.mul(x, b.f64(0x1.45f306dc9c883p-1)));
    auto r = b.fma(q, b.f64(-0x1.921fb54442d18p+0), x);
    r = b.fma(q, b.f64(-0x1.1a62633145c07p-54), r);
    r = b.fma(q, b.f64(0x1.f1976b7ed8fbcp-110), r);
    return std::tuple<typename B::F64, typename B::I32>(r, b.toI32(q));
  };
  auto far = [&] {
    auto [r, quadrant] = reduceLarge64(b, x);
    auto negative = b.less(x, b.f64(0.0));
    return std::tuple<typename B::F64, typename B::I32>(
        b.select(negative, b.neg(r), r), b.select(negative, b.isub(b.i32(0), quadrant), quadrant));
  };
  return b.branch(b.less(b.abs(x), b.f64(0x1p20)), near, far);
}
template <class B> typename B::F64 sineOf64(B &b, typename B::F64 x, bool cosine) {
  static constexpr double s[] = {-1.0 / 6,        1.0 / 120,         -1.0 / 5040,          1.0 / 362880,
                                 -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000.};
  static constexpr double c[] = {1.0 / 24,        -1.0 / 720,          1.0 / 40320,          -1.0 / 3628800,
                                 1.0 / 479001600, -1.0 / 87178291200., 1.0 / 20922789888000.};
  auto [r, q] = reduce64(b, x);
  if (cosine)
    q = b.iadd(q, b.i32(1));
  auto z = b.mul(r, r);
  auto sine = b.fma(b.mul(poly(b, z, s), z), r, r);
  auto cos = b.fma(b.mul(poly(b, z, c), z), z, b.fma(z, b.f64(-0.5), b.f64(1.0)));
  auto v = b.select(b.iequal(b.iand(q, b.i32(1)), b.i32(0)), sine, cos);
  v = b.select(b.iequal(b.iand(q, b.i32(2)), b.i32(0)), v, b.neg(v));
  if (!cosine)
    v = b.select(b.equal(x, b.f64(0.0)), x, v); // -0
  return b.select(b.less(b.abs(x), b.f64(inf64)), v, b.f64(nan64));
}

template <class B> typename B::F64 erf64(B &b, typename B::F64 x) {
  static constexpr double c[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042bddp-4,
                                 -0x1.b82ce31288992p-6,  0x1.565bcd0e648f6p-8,   -0x1.c02db3fed2b90p-11,
                                 0x1.f9a326bed3c71p-14,  -0x1.f4d255cba4aa1p-17, 0x1.b9e64b9fb98afp-20,
                                 -0x1.5f6d5b46c9286p-23, 0x1.fc402072d9d39p-27,  -0x1.4e510764e6d3ep-30,
                                 0x1.7eb07ea04471fp-34,  -0x1.28e30d47a2352p-38};
  // e^(x^2) erfc x on [1, 6] in t = (x - 2) / (x + 2)
  static constexpr double d[] = {0x1.058671b52c776p-2,   -0x1.b57034efd3f73p-2,  0x1.eeea7dc8a78b4p-3,
                                 -0x1.437f0b68c0b37p-4,  0x1.e94715979dbffp-9,   0x1.ca95ed52f23a1p-8,
                                 -0x1.bc25a47a215f1p-11, -0x1.016b5cb86e51bp-10, 0x1.6d5ef3d711a8fp-15,
                                 0x1.6da959a709306p-13,  0x1.cdcd70f9ca421p-16,  -0x1.ceaf1700bcff6p-16,
                                 -0x1.d4c60fc3e910ap-17, 0x1.737088990f163p-20,  0x1.ff4ab6318375cp-19,
                                 0x1.3f3974a52e0dep-20,  -0x1.3c7ebb5f92c1bp-21, -0x1.9aff59c587745p-22};
  auto a = b.abs(x);
  auto small = b.fma(poly(b, b.mul(x, x), c), x, x);
  auto bounded = b.select(b.less(b.f64(6.0), a), b.f64(6.0), a); // erf is 1 from here; NaN stays
  auto t = b.div(b.sub(bounded, b.f64(2.0)), b.add(bounded, b.f64(2.0)));
  auto rest = b.mul(exp64(b, b.neg(b.mul(bounded, bounded))), poly(b, t, d));
  auto large = b.sub(b.f64(1.0), rest);
  return b.select(b.less(a, b.f64(1.0)), small, withSign64(b, large, x));
}

// --- power
// --------------------------------------------------------------------------------------------------------

/// The values of C's pow at its special operands; `r` is |x|^y where that is defined by logarithms.
template <class B> typename B::F64 powEdges(B &b, typename B::F64 x, typename B::F64 y, typename B::F64 r) {
  auto one = b.f64(1.0), zero = b.f64(0.0);
  auto absX = b.abs(x);
  r = b.select(b.equal(absX, one), one, r);
  auto whole = b.equal(b.rint(y), y);
  auto halfY = b.mul(y, b.f64(0.5));
  auto odd = b.both(whole, b.invert(b.equal(b.rint(halfY), halfY)));
  auto negative = b.iless(b.bits(x), b.i64(0)); // -0 too
  r = b.select(b.both(negative, odd), b.neg(r), r);
  auto finiteNegative = b.both(b.less(x, zero), b.less(absX, b.f64(inf64)));
  r = b.select(b.both(finiteNegative, b.invert(whole)), b.f64(nan64), r);
  r = b.select(b.either(b.isNan(x), b.isNan(y)), b.f64(nan64), r);
  return b.select(b.either(b.equal(y, zero), b.equal(x, one)), one, r);
}
/// 2^(y log2 |x|) with the logarithm and the product in two parts.
template <class B> typename B::F64 pow64(B &b, typename B::F64 x, typename B::F64 y) {
  auto a = b.abs(x);
  auto [high, low] = log2Sum64(b, a);
  auto edge = b.either(b.equal(a, b.f64(0.0)), b.equal(a, b.f64(inf64)));
  high = b.select(edge, b.select(b.equal(a, b.f64(0.0)), b.f64(-inf64), b.f64(inf64)), high);
  low = b.select(edge, b.f64(0.0), low);
  auto t = b.mul(y, high);
  auto rest = b.fma(y, low, b.fma(y, high, b.neg(t)));
  // Infinite or far out of range: the rest has no meaning and no weight.
  rest = b.select(b.less(b.abs(t), b.f64(4096.0)), rest, b.f64(0.0));
  return powEdges(b, x, y, exp2Sum64(b, t, rest));
}
template <class B> typename B::F32 pow32(B &b, typename B::F32 x, typename B::F32 y) {
  auto wideX = b.widen(x), wideY = b.widen(y);
  auto t = b.mul(wideY, log2_64(b, b.abs(wideX)));
  return b.narrow(powEdges(b, wideX, wideY, exp2_64(b, t)));
}

} // namespace sectile::math
