// SPDX-License-Identifier: Apache-2.0
/// \file The interpreter's inner loops, each build of them, against the scalar meaning in ir/base/Scalar.h;
/// math functions against long double.
#include "tests/support/InterpHarness.h"

#include "ir/InterpKernels.h"
#include "ir/base/Scalar.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>

using namespace sectile;
using namespace sectile::test;
using namespace sectile::tileir::interp;
using tileir::BinaryFn, tileir::ComparePred, tileir::ReduceKind, tileir::UnaryFn;

namespace {

/// Every code of 8-bit types; corners and random bits of the others.
template <class T> std::vector<T> samples(std::size_t n, unsigned seed) {
  std::mt19937_64 gen(seed);
  std::vector<T> v;
  if constexpr (detail::FloatElement<T>) {
    for (double x : {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 1e-3, 448.0, 65504.0, 1e30, -1e30, 1e-38,
                     1e-40, 1e-45, double(INFINITY), -double(INFINITY), double(NAN)})
      v.push_back(T(x));
  } else if constexpr (detail::IntElement<T>) {
    for (int x : {0, 1, -1, 2, -2, 3, 7, 31, 32, 63, 64, -7})
      v.push_back(T(x));
    v.push_back(std::numeric_limits<T>::min());
    v.push_back(std::numeric_limits<T>::max());
  }
  while (v.size() < n) {
    std::uint64_t bits = gen();
    T x;
    if constexpr (std::same_as<T, bool>) {
      x = bits & 1;
    } else if (detail::FloatElement<T> && sizeof(T) >= 4 && bits % 2) {
      x = detail::cast<T>(std::ldexp(double(std::int64_t(gen())), -60 - int(bits % 8)));
    } else {
      std::memcpy(static_cast<void *>(&x), &bits, sizeof x);
    }
    v.push_back(x);
  }
  return v;
}

template <class T> std::uint64_t bitsOf(T v) {
  if constexpr (detail::FloatElement<T>)
    if (detail::isNan(v))
      return ~std::uint64_t(0);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}

template <class T> bool sameBits(const std::vector<T> &got, const std::vector<T> &expected, std::size_t &at) {
  for (at = 0; at < got.size(); ++at)
    if (bitsOf(got[at]) != bitsOf(expected[at]))
      return false;
  return true;
}

std::vector<Isa> isas() {
  std::vector<Isa> list{Isa::base};
  if (hostIsa() == Isa::v3)
    list.push_back(Isa::v3);
  return list;
}

/// std::vector<bool> has no data().
template <class T> using Lane = std::conditional_t<std::same_as<T, bool>, Truth, T>;

template <class F> void forEachType(F &&f) {
  for (int t = 0; t < numDTypes; ++t)
    detail::visitDType(DType(t), [&]<class T>(std::type_identity<T>) {
      INFO("element type " << name(DType(t)));
      f.template operator()<T>(DType(t));
    });
}

/// Compares the kernels of one function with `scalar`, which takes T and is asked only where the kernel
/// exists.
template <class T, class Scalar> void checkBinary(BinaryFn fn, Scalar &&scalar) {
  const std::size_t n = 5003;
  auto a = samples<T>(n, 1), b = samples<T>(n, 2);
  std::shuffle(b.begin(), b.end(), std::mt19937(3));
  std::vector<T> expected(n), got(n);
  for (std::size_t i = 0; i < n; ++i)
    expected[i] = scalar(a[i], b[i]);
  for (Isa isa : isas()) {
    BinaryKernel kernel = binaryKernel(fn, dtypeOf<T>, isa);
    REQUIRE(kernel);
    kernel(a.data(), b.data(), got.data(), std::int64_t(n));
    std::size_t at;
    bool same = sameBits(got, expected, at);
    INFO("isa " << int(isa) << ", lane " << at << ": " << +bitsOf(a[at % n]) << ", " << +bitsOf(b[at % n]));
    CHECK(same);
  }
}

} // namespace

TEST_CASE("binary functions are those of Scalar.h, on every type and build", "[interp]") {
  forEachType([]<class T>(DType) {
    if constexpr (!std::same_as<T, bool>) {
      checkBinary<T>(BinaryFn::k_add, [](T x, T y) { return detail::add(x, y); });
      checkBinary<T>(BinaryFn::k_sub, [](T x, T y) { return detail::sub(x, y); });
      checkBinary<T>(BinaryFn::k_mul, [](T x, T y) { return detail::mul(x, y); });
      checkBinary<T>(BinaryFn::k_div, [](T x, T y) { return detail::div(x, y); });
      checkBinary<T>(BinaryFn::k_rem, [](T x, T y) { return detail::rem(x, y); });
      checkBinary<T>(BinaryFn::k_max, [](T x, T y) { return detail::max(x, y); });
      checkBinary<T>(BinaryFn::k_min, [](T x, T y) { return detail::min(x, y); });
    }
    if constexpr (detail::FloatElement<T>) {
      checkBinary<T>(BinaryFn::k_maxnum, [](T x, T y) { return detail::maxNum(x, y); });
      checkBinary<T>(BinaryFn::k_minnum, [](T x, T y) { return detail::minNum(x, y); });
      checkBinary<T>(BinaryFn::k_pow, [](T x, T y) {
        if constexpr (std::same_as<T, double>)
          return std::pow(x, y);
        else
          return T(float(std::pow(double(float(x)), double(float(y)))));
      });
    }
    if constexpr (detail::IntElement<T>) {
      checkBinary<T>(BinaryFn::k_floordiv, [](T x, T y) { return detail::floorDiv(x, y); });
      checkBinary<T>(BinaryFn::k_floormod, [](T x, T y) { return detail::floorMod(x, y); });
      checkBinary<T>(BinaryFn::k_shl, [](T x, T y) { return detail::shl(x, y); });
      checkBinary<T>(BinaryFn::k_shr, [](T x, T y) { return detail::shr(x, y); });
      checkBinary<T>(BinaryFn::k_bitand, [](T x, T y) { return T(x & y); });
      checkBinary<T>(BinaryFn::k_bitor, [](T x, T y) { return T(x | y); });
      checkBinary<T>(BinaryFn::k_bitxor, [](T x, T y) { return T(x ^ y); });
    }
  });
  for (Isa isa : isas())
    for (auto [fn, table] :
         std::vector<std::pair<BinaryFn, std::array<std::uint8_t, 4>>>{{BinaryFn::k_add, {0, 1, 1, 1}},
                                                                       {BinaryFn::k_mul, {0, 0, 0, 1}},
                                                                       {BinaryFn::k_max, {0, 1, 1, 1}},
                                                                       {BinaryFn::k_min, {0, 0, 0, 1}},
                                                                       {BinaryFn::k_bitand, {0, 0, 0, 1}},
                                                                       {BinaryFn::k_bitor, {0, 1, 1, 1}},
                                                                       {BinaryFn::k_bitxor, {0, 1, 1, 0}}}) {
      std::uint8_t a[4] = {0, 0, 1, 1}, b[4] = {0, 1, 0, 1}, r[4];
      binaryKernel(fn, DType::boolean, isa)(a, b, r, 4);
      CHECK(std::equal(r, r + 4, table.begin()));
    }
  CHECK_FALSE(binaryKernel(BinaryFn::k_shl, DType::f32, Isa::base));
  CHECK_FALSE(binaryKernel(BinaryFn::k_div, DType::boolean, Isa::base));
}

TEST_CASE("bf16 products and quotients that are subnormal round once", "[interp]") {
  // (1 + 2^-7) * 2^-63 * (1 + 2^-7) * 2^-63 = (1 + 2^-6 + 2^-14) * 2^-126, scaled down to where f32 has few
  // bits left.
  std::vector<bf16> a, b;
  for (int i = 0; i < 128; ++i)
    for (int j = 0; j < 128; ++j) {
      a.push_back(bf16(std::ldexp(1 + i / 128.0, -67)));
      b.push_back(bf16(std::ldexp(1 + j / 128.0, -64)));
    }
  std::vector<bf16> got(a.size());
  for (Isa isa : isas()) {
    binaryKernel(BinaryFn::k_mul, DType::bf16, isa)(a.data(), b.data(), got.data(), std::int64_t(a.size()));
    bool same = true;
    for (std::size_t i = 0; i < a.size(); ++i)
      same &= got[i].bits == bf16(double(float(a[i])) * double(float(b[i]))).bits;
    CHECK(same);
  }
}

TEST_CASE("comparisons and choices", "[interp]") {
  forEachType([]<class T>(DType t) {
    const std::size_t n = 2003;
    auto make = [&](unsigned seed) {
      auto v = samples<T>(n, seed);
      std::vector<Lane<T>> lanes(n);
      for (std::size_t i = 0; i < n; ++i) {
        T x = v[i];
        std::memcpy(static_cast<void *>(&lanes[i]), &x, sizeof x);
      }
      return lanes;
    };
    auto a = make(4), b = make(5);
    std::shuffle(b.begin() + 100, b.end(), std::mt19937(3)); // the first hundred hold equal corners
    auto value = [](const Lane<T> &x) {
      if constexpr (std::same_as<T, bool>)
        return int(x.byte);
      else if constexpr (detail::SmallFloat<T>)
        return float(x);
      else
        return x;
    };
    for (Isa isa : isas()) {
      std::vector<std::uint8_t> r(n);
      auto check = [&](ComparePred pred, auto holds) {
        compareKernel(pred, t, isa)(a.data(), b.data(), r.data(), std::int64_t(n));
        bool same = true;
        for (std::size_t i = 0; i < n; ++i)
          same &= r[i] == std::uint8_t(holds(value(a[i]), value(b[i])));
        CHECK(same);
      };
      check(ComparePred::k_eq, [](auto x, auto y) { return x == y; });
      check(ComparePred::k_ne, [](auto x, auto y) { return x != y; });
      check(ComparePred::k_lt, [](auto x, auto y) { return x < y; });
      check(ComparePred::k_le, [](auto x, auto y) { return x <= y; });
      check(ComparePred::k_gt, [](auto x, auto y) { return x > y; });
      check(ComparePred::k_ge, [](auto x, auto y) { return x >= y; });
      std::vector<Lane<T>> chosen(n);
      selectKernel(t, isa)(reinterpret_cast<const bool *>(r.data()), a.data(), b.data(), chosen.data(),
                           std::int64_t(n));
      bool same = true;
      for (std::size_t i = 0; i < n; ++i)
        same &= std::memcmp(&chosen[i], r[i] ? &a[i] : &b[i], sizeof(T)) == 0;
      CHECK(same);
    }
  });
}

TEST_CASE("casts between every two types are those of Scalar.h", "[interp]") {
  forEachType([]<class From>(DType from) {
    const std::size_t n = sizeof(From) == 2 ? 65536 + 19 : 4099;
    auto x = samples<From>(n, 6);
    if constexpr (sizeof(From) == 2) // every code
      for (std::size_t i = 0; i < 65536; ++i) {
        std::uint16_t code = std::uint16_t(i);
        std::memcpy(static_cast<void *>(&x[i]), &code, sizeof code);
      }
    std::vector<Lane<From>> lanes(n);
    for (std::size_t i = 0; i < n; ++i) {
      From v = x[i];
      std::memcpy(static_cast<void *>(&lanes[i]), &v, sizeof v);
    }
    forEachType([&]<class To>(DType to) {
      for (Isa isa : isas()) {
        std::vector<Lane<To>> r(n);
        castKernel(to, from, isa)(lanes.data(), r.data(), std::int64_t(n));
        bool same = true;
        for (std::size_t i = 0; i < n; ++i) {
          To got;
          std::memcpy(static_cast<void *>(&got), &r[i], sizeof got);
          same &= bitsOf(got) == bitsOf(detail::cast<To>(From(x[i])));
        }
        CHECK(same);
      }
    });
  });
}

TEST_CASE("unary functions that are exact", "[interp]") {
  forEachType([]<class T>(DType t) {
    if constexpr (!std::same_as<T, bool>) {
      const std::size_t n = 5003;
      auto x = samples<T>(n, 7);
      std::vector<T> got(n), expected(n);
      auto check = [&](UnaryFn fn, auto scalar) {
        for (std::size_t i = 0; i < n; ++i)
          expected[i] = scalar(x[i]);
        for (Isa isa : isas()) {
          UnaryKernel kernel = unaryKernel(fn, t, isa);
          REQUIRE(kernel);
          kernel(x.data(), got.data(), std::int64_t(n));
          std::size_t at;
          bool same = sameBits(got, expected, at);
          INFO("function " << int(fn) << ", isa " << int(isa) << ", lane " << at);
          CHECK(same);
        }
      };
      check(UnaryFn::k_neg, [](T v) { return detail::neg(v); });
      check(UnaryFn::k_abs, [](T v) { return detail::abs(v); });
      if constexpr (detail::IntElement<T>)
        check(UnaryFn::k_bitnot, [](T v) { return T(~v); });
      if constexpr (detail::FloatElement<T>) {
        auto wide = [](auto f) { return [f](T v) { return T(f(detail::Wide<T>(v))); }; };
        check(UnaryFn::k_sqrt, [](T v) { return detail::sqrt(v); });
        check(UnaryFn::k_floor, wide([](auto v) { return std::floor(v); }));
        check(UnaryFn::k_ceil, wide([](auto v) { return std::ceil(v); }));
        check(UnaryFn::k_trunc, wide([](auto v) { return std::trunc(v); }));
        check(UnaryFn::k_round, wide([](auto v) { return std::nearbyint(v); }));
        std::vector<std::uint8_t> truth(n);
        for (Isa isa : isas()) {
          bool same = true;
          unaryKernel(UnaryFn::k_isnan, t, isa)(x.data(), truth.data(), std::int64_t(n));
          for (std::size_t i = 0; i < n; ++i)
            same &= truth[i] == std::uint8_t(std::isnan(detail::Wide<T>(x[i])));
          unaryKernel(UnaryFn::k_isinf, t, isa)(x.data(), truth.data(), std::int64_t(n));
          for (std::size_t i = 0; i < n; ++i)
            same &= truth[i] == std::uint8_t(std::isinf(detail::Wide<T>(x[i])));
          CHECK(same);
        }
      }
    }
  });
  std::uint8_t truth[2] = {0, 1}, flipped[2];
  unaryKernel(UnaryFn::k_bitnot, DType::boolean, hostIsa())(truth, flipped, 2);
  CHECK(flipped[0] == 1);
  CHECK(flipped[1] == 0);
}

TEST_CASE("math functions round the double result once", "[interp]") {
  using Wide = long double;
  std::vector<std::pair<UnaryFn, Wide (*)(Wide)>> functions = {
      {UnaryFn::k_exp, [](Wide x) { return std::exp(x); }},
      {UnaryFn::k_exp2, [](Wide x) { return std::exp2(x); }},
      {UnaryFn::k_log, [](Wide x) { return std::log(x); }},
      {UnaryFn::k_log2, [](Wide x) { return std::log2(x); }},
      {UnaryFn::k_rsqrt, [](Wide x) { return 1 / std::sqrt(x); }},
      {UnaryFn::k_sin, [](Wide x) { return std::sin(x); }},
      {UnaryFn::k_cos, [](Wide x) { return std::cos(x); }},
      {UnaryFn::k_tanh, [](Wide x) { return std::tanh(x); }},
      {UnaryFn::k_erf, [](Wide x) { return std::erf(x); }},
      {UnaryFn::k_sigmoid, [](Wide x) { return 1 / (1 + std::exp(-x)); }},
  };
  forEachType([&]<class T>(DType t) {
    if constexpr (detail::FloatElement<T>) {
      const std::size_t n = 3001;
      auto x = samples<T>(n, 8);
      std::vector<T> got(n);
      for (auto [fn, exact] : functions)
        for (Isa isa : isas()) {
          unaryKernel(fn, t, isa)(x.data(), got.data(), std::int64_t(n));
          for (std::size_t i = 0; i < n; ++i) {
            double v = double(detail::Wide<T>(x[i])), r = double(detail::Wide<T>(got[i]));
            double expected = double(exact(Wide(v)));
            bool good;
            if constexpr (std::same_as<T, double>)
              good = std::isnan(expected)
                         ? std::isnan(r)
                         : r == expected || std::abs(r - expected) <= 8e-16 * std::abs(expected) + 1e-323;
            else if constexpr (std::same_as<T, float>)
              good = bitsOf(got[i]) == bitsOf(float(expected));
            else
              good = bitsOf(got[i]) == bitsOf(T(float(expected)));
            if (!good) {
              INFO("function " << int(fn) << " of " << v << " gives " << r << ", not " << expected);
              CHECK(good);
            }
          }
        }
    }
  });
}

TEST_CASE("f32 rounded to tf32", "[interp]") {
  std::vector<float> x = {1.0f,     1 + 0x1p-12f, 1 + 0x1p-11f, 1 + 0x3p-11f, -(1 + 0x1.8p-11f),
                          INFINITY, NAN,          3e38f,        FLT_MAX};
  std::vector<float> expected = {1.0f, 1.0f, 1.0f, 1 + 0x1p-9f, -(1 + 0x1p-10f), INFINITY, NAN, 0, INFINITY};
  expected[7] = std::ldexp(std::nearbyint(std::ldexp(3e38f, -117)), 117);
  for (Isa isa : isas()) {
    std::vector<float> got(x.size());
    tf32Kernel(isa)(x.data(), got.data(), std::int64_t(x.size()));
    std::size_t at;
    CHECK(sameBits(got, expected, at));
  }
}

TEST_CASE("both builds of sums and products give the same bits", "[interp]") {
  if (hostIsa() != Isa::v3)
    return;
  std::mt19937 gen(9);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (auto [M, N, K] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {7, 29, 13}, {16, 64, 33}, {13, 40, 1}}) {
    std::vector<float> a(std::size_t(M * K)), b(std::size_t(K * N)), c(std::size_t(M * N)), d;
    for (auto *v : {&a, &b, &c})
      for (float &x : *v)
        x = uniform(gen);
    d = c;
    MmaCall call{a.data(), b.data(), c.data(), nullptr, nullptr, K, N, 0, M, 0, K};
    mmaKernel(DType::f32, Isa::v3)(call);
    call.c = d.data();
    mmaKernel(DType::f32, Isa::base)(call);
    CHECK(c == d);
    float s[2];
    reduceKernel(ReduceKind::k_sum, DType::f32, Isa::v3)(b.data(), nullptr, s, 1, K * N, 0, K * N, 1);
    reduceKernel(ReduceKind::k_sum, DType::f32, Isa::base)(b.data(), nullptr, s + 1, 1, K * N, 0, K * N, 1);
    CHECK(s[0] == s[1]);
  }
}
