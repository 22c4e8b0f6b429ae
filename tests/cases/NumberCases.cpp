// SPDX-License-Identifier: Apache-2.0
/// \file P10, P14, P16d: conversions, shifts, division. Constants, scalars, tails and full tiles agree.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

// An 8-bit float's value from its definition: sign, exponent, fraction.
double decode(int code, int exponentBits, int fractionBits, bool finiteOnly) {
  const int e = code >> fractionBits & ((1 << exponentBits) - 1), f = code & ((1 << fractionBits) - 1);
  const int bias = (1 << (exponentBits - 1)) - 1, top = (1 << exponentBits) - 1;
  const double sign = code & 0x80 ? -1 : 1;
  if (finiteOnly ? (code & 0x7F) == 0x7F : e == top && f)
    return std::nan("");
  if (!finiteOnly && e == top)
    return sign * inf;
  return sign * (e ? std::ldexp(1 + std::ldexp(f, -fractionBits), e - bias)
                   : std::ldexp(f, 1 - bias - fractionBits));
}
template <class T> double valueOf(int code) {
  return std::is_same_v<T, e4m3> ? decode(code, 4, 3, true) : decode(code, 5, 2, false);
}
/// The nearest finite code, ties to the even one; saturating.
template <class T> u8 nearest(double v) {
  const int sign = std::signbit(v) ? 0x80 : 0;
  const int last = std::is_same_v<T, e4m3> ? 0x7E : 0x7B;
  double m = std::abs(v);
  if (m >= valueOf<T>(last))
    return u8(last | sign);
  int best = 0;
  for (int c = 1; c <= last; ++c) {
    const double now = std::abs(m - valueOf<T>(c)), was = std::abs(m - valueOf<T>(best));
    if (now < was || (now == was && c % 2 == 0))
      best = c;
  }
  return u8(best | sign);
}

template <class From, class To>
constexpr auto convert = kernel("convert", [](Tensor<const From, 1> x, Tensor<To, 1> y) {
  auto [i] = grid(y, {256});
  y.store({i}, cast<To>(x.load({i}, {256})));
});
/// The same as constants of the kernel.
template <class To>
constexpr auto convertConstants = kernel("convert_constants", [](Tensor<To, 1> y) {
  const float values[] = {0.3f, 61439, 61440,  1e6f, inf,  448,  464,
                          465,  -0.3f, -61440, -inf, -465, 0.0f, -0.0f};
  int i = 0;
  for (float v : values)
    y.store({i++}, cast<To>(full<f32>({1}, v)));
});

template <class T> std::vector<u8> codesOf(const std::vector<T> &v) {
  return make<u8>(std::int64_t(v.size()), [&](auto i) { return v[std::size_t(i)].bits; });
}

template <class From, class To> void toFp8(Run &run, const std::vector<From> &values) {
  const std::int64_t n = std::int64_t(values.size());
  Guarded<From> x(run, values);
  Guarded<To> y(run, n);
  run.sweep(
      {&y}, [&](const Config &c) { convert<From, To>.with(c)(run.stream(), x.view(n), y.view(n)); },
      [&] {
        const auto got = y.get();
        for (std::int64_t i = 0; i < n; ++i) {
          const double v = double(values[std::size_t(i)]);
          const u8 code = got[std::size_t(i)].bits;
          if (std::isnan(v))
            run.check(std::isnan(valueOf<To>(code)), fmt::format("NaN: code {:#x}/a NaN", code));
          else
            run.check(code == nearest<To>(v), fmt::format("{}: code {:#x}/{:#x}", v, code, nearest<To>(v)));
        }
      },
      run.isGpu() ? 10 : 2);
}
template <class From, class To> void toFp8All(Run &run) {
  std::vector<From> values;
  if constexpr (sizeof(From) == 2) {
    for (int b = 0; b < 65536; ++b)
      values.push_back(From::fromBits(u16(b)));
  } else {
    // Every code, every midpoint of neighbours, and their neighbours in the source format.
    for (int c = 0; c < 256; ++c) {
      const double here = valueOf<To>(c), next = valueOf<To>(c ^ 1), mid = (here + next) / 2;
      for (double v : {here, mid})
        for (double toward : {double(-inf), v, double(inf)})
          values.push_back(From(std::nextafter(From(v), From(toward))));
    }
    for (double v : {0.3, 61439.0, 61440.0, 1e6, 448.0, 464.0, 465.0, 1e-30, 1e38})
      values.insert(values.end(), {From(v), From(-v)});
  }
  toFp8<From, To>(run, values);
}

template <class T> void fp8Listed(Run &run, const std::vector<float> &in, const std::vector<u8> &want) {
  Guarded<f32> x(run, in);
  const std::int64_t n = std::int64_t(in.size());
  Guarded<T> y(run, n);
  run.sweep(
      {&y}, [&](const Config &c) { convert<f32, T>.with(c)(run.stream(), x.view(n), y.view(n)); },
      [&] { run.same(codesOf(y.get()), want, "code"); });
  Guarded<T> z(run, 14);
  const float constants[] = {0.3f, 61439, 61440,  1e6f, inf,  448,  464,
                             465,  -0.3f, -61440, -inf, -465, 0.0f, -0.0f};
  run.sweep(
      {&z}, [&](const Config &c) { convertConstants<T>.with(c)(run.stream(), z.view(14)); },
      [&] {
        run.same(z.get(), make<T>(14, [&](auto i) { return valueOf<T>(nearest<T>(constants[i])); }),
                 "constant");
      });
}

template <class From, class To> void fromFp8(Run &run) {
  Guarded<From> x(run, make<From>(256, [](auto i) { return From::fromBits(u8(i)); }));
  Guarded<To> y(run, 256);
  run.sweep(
      {&y}, [&](const Config &c) { convert<From, To>.with(c)(run.stream(), x.view(256), y.view(256)); },
      [&] { run.same(y.get(), make<To>(256, [](auto i) { return valueOf<From>(int(i)); }), "code"); });
}

/// out[0]: a tile; [1]: constants that the compiler may fold; [2]: scalars.
template <class T, auto value, int bits>
constexpr auto shifts = kernel("shifts", [](Tensor<const T, 1> x, Tensor<T, 2> y) {
  Tile v = x.load({0}, {64});
  y.store({0, 0}, v >> bits);
  y.store({1, 0}, full<T>({64}, value) >> bits);
  y.store({2, 0}, full<T>({64}, scalar<T>(value) >> bits));
  y.store({3, 0}, v >> full<T>({64}, bits));
});
template <class T, auto value, int bits> void shiftRight(Run &run, T want) {
  Guarded<T> x(run, std::vector<T>(50, T(value))), y(run, 4 * 64); // 50: the last lanes do not exist
  run.sweep(
      {&y}, [&](const Config &c) { shifts<T, value, bits>.with(c)(run.stream(), x.view(50), y.view(4, 64)); },
      [&] {
        const auto poison = y.get()[63];
        run.same(
            y.get(),
            make<T>(256,
                    [&](auto i) { return (i / 64 == 0 || i / 64 == 3) && i % 64 >= 50 ? poison : want; }),
            fmt::format("{} >> {}", show(T(value)), bits));
      });
}

/// Rows: quotient, remainder, floor quotient, floor remainder of tiles, then of literals, then of scalars.
template <class T, auto a, auto b>
constexpr auto divisions = kernel("divisions",
                                  [](Tensor<const T, 1> x, Tensor<const T, 1> z, Tensor<T, 2> y) {
                                    int row = 0;
                                    auto all = [&](Tile p, Tile q) {
                                      y.store({row++, 0}, full<T>({16}, 0) + (p / q));
                                      y.store({row++, 0}, full<T>({16}, 0) + (p % q));
                                      y.store({row++, 0}, full<T>({16}, 0) + floorDiv(p, q));
                                      y.store({row++, 0}, full<T>({16}, 0) + floorMod(p, q));
                                    };
                                    all(x.load({0}, {16}), z.load({0}, {16}));
                                    all(full<T>({16}, a), full<T>({16}, b));
                                    all(scalar<T>(a), scalar<T>(b));
                                  });
template <class T, auto a, auto b>
void divide(Run &run, T quotient, T remainder, T floorQuotient, T floorRemainder) {
  Guarded<T> x(run, std::vector<T>(16, T(a))), z(run, std::vector<T>(16, T(b))), y(run, 12 * 16);
  const T row[] = {quotient, remainder, floorQuotient, floorRemainder};
  run.sweep(
      {&y},
      [&](const Config &c) {
        divisions<T, a, b>.with(c)(run.stream(), x.view(16), z.view(16), y.view(12, 16));
      },
      [&] {
        run.same(y.get(), make<T>(12 * 16, [&](auto i) { return row[i / 16 % 4]; }),
                 fmt::format("{} by {}", show(T(a)), show(T(b))));
      });
}

template <class T>
constexpr auto ceiling = kernel("ceiling", [](Tensor<const T, 1> x, Tensor<T, 1> y) {
  y.store({0}, -floorDiv(-x.load({0}, {16}), 5));
});

template <class To>
constexpr auto toInteger = kernel("to_integer", [](Tensor<const f32, 1> x, Tensor<To, 2> y) {
  y.store({0, 0}, cast<To>(x.load({0}, {8})));
  const float values[] = {inf, -inf, 510, -200, qnan, 1.999f, -1.999f, 3e9f};
  for (int i = 0; i < 8; ++i) {
    y.store({1, i}, cast<To>(full<f32>({1}, values[i])));
    y.store({2, i}, full<To>({1}, cast<To>(scalar<f32>(values[i]))));
  }
});
template <class To> void integers(Run &run, const std::vector<To> &want) {
  Guarded<f32> x(run, std::vector<f32>{inf, -inf, 510, -200, qnan, 1.999f, -1.999f, 3e9f});
  Guarded<To> y(run, 24);
  run.sweep(
      {&y}, [&](const Config &c) { toInteger<To>.with(c)(run.stream(), x.view(8), y.view(3, 8)); },
      [&] {
        run.same(y.get(), make<To>(24, [&](auto i) { return want[std::size_t(i) % 8]; }),
                 "tile, constants, scalars");
      });
}

template <class T>
constexpr auto quotients = kernel("quotients",
                                  [](Tensor<const T, 1> a, Tensor<const T, 1> b, Tensor<T, 1> y) {
                                    auto [i] = grid(y, {256});
                                    y.store({i}, a.load({i}, {256}) / b.load({i}, {256}));
                                  });
template <class T> void preciseDivision(Run &run) {
  // Quotients near ties: (k + 1/2 ulp) * b and the like, spread over exponents by a small generator.
  std::vector<T> a{T(4.6875), T(1), T(0), T(-1), T(1)}, b{T(0.9375), T(3), T(0), T(0), T(inf)};
  std::uint64_t state = 12345;
  auto draw = [&] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return double(state >> 11) * 0x1p-53;
  };
  while (a.size() < 4096) {
    a.push_back(T(std::ldexp(1 + draw(), int(draw() * 120) - 60)));
    b.push_back(T(std::ldexp(1 + draw(), int(draw() * 120) - 60)));
  }
  Guarded<T> A(run, a), B(run, b), y(run, 4096);
  run.sweep(
      {&y},
      [&](const Config &c) { quotients<T>.with(c)(run.stream(), A.view(4096), B.view(4096), y.view(4096)); },
      [&] {
        run.same(y.get(), make<T>(4096, [&](auto i) { return a[std::size_t(i)] / b[std::size_t(i)]; }),
                 "quotient");
      });
}

} // namespace

SECTILE_CASE("P10a") {
  fp8Listed<e5m2>(run, {0.3f, 61439, 61440, 1e6f, inf, -0.3f, -61439, -61440, -1e6f, -inf},
                  {0x35, 0x7B, 0x7B, 0x7B, 0x7B, 0xB5, 0xFB, 0xFB, 0xFB, 0xFB});
}
SECTILE_CASE("P10b") {
  fp8Listed<e4m3>(run, {0.3f, 448, 464, 465, inf, -0.3f, -448, -464, -465, -inf},
                  {0x2A, 0x7E, 0x7E, 0x7E, 0x7E, 0xAA, 0xFE, 0xFE, 0xFE, 0xFE});
}
SECTILE_CASE("P10a/f16") { toFp8All<f16, e5m2>(run); }
SECTILE_CASE("P10a/bf16") { toFp8All<bf16, e5m2>(run); }
SECTILE_CASE("P10a/f32") { toFp8All<f32, e5m2>(run); }
SECTILE_CASE("P10a/f64") { toFp8All<f64, e5m2>(run); }
SECTILE_CASE("P10b/f16") { toFp8All<f16, e4m3>(run); }
SECTILE_CASE("P10b/bf16") { toFp8All<bf16, e4m3>(run); }
SECTILE_CASE("P10b/f32") { toFp8All<f32, e4m3>(run); }
SECTILE_CASE("P10b/f64") { toFp8All<f64, e4m3>(run); }
SECTILE_CASE("P10a/nan") { toFp8<f32, e5m2>(run, {qnan, -qnan, 1.0f}); }
SECTILE_CASE("P10b/nan") { toFp8<f32, e4m3>(run, {qnan, -qnan, 1.0f}); }
SECTILE_CASE("P10c/e4m3") {
  fromFp8<e4m3, f32>(run);
  fromFp8<e4m3, f16>(run);
  fromFp8<e4m3, bf16>(run);
  fromFp8<e4m3, f64>(run);
}
SECTILE_CASE("P10c/e5m2") {
  fromFp8<e5m2, f32>(run);
  fromFp8<e5m2, f16>(run);
  fromFp8<e5m2, bf16>(run);
  fromFp8<e5m2, f64>(run);
}
SECTILE_CASE("P14a") {
  shiftRight<i8, -128, 5>(run, -4);
  shiftRight<u8, 128, 5>(run, 4);
  shiftRight<u16, 0x8000, 5>(run, 1024);
  shiftRight<i32, -1, 5>(run, -1);
  shiftRight<u32, 0x80000000u, 31>(run, 1);
  shiftRight<i16, -32768, 5>(run, -1024);
  shiftRight<i64, -64, 5>(run, -2);
  shiftRight<u64, 0x8000000000000000u, 63>(run, 1);
}
SECTILE_CASE("P14a/past") { // past the width: 0, or the sign
  shiftRight<i8, -128, 9>(run, -1);
  shiftRight<u8, 128, 8>(run, 0);
  shiftRight<i32, -5, 32>(run, -1);
  shiftRight<u32, 0xFFFFFFFFu, 32>(run, 0);
  shiftRight<i64, -5, 100>(run, -1);
  shiftRight<u64, 7u, 64>(run, 0);
}
SECTILE_CASE("P14b") {
  divide<i32, 7, -2>(run, -3, 1, -4, -1);
  divide<i32, -7, 2>(run, -3, -1, -4, 1);
  divide<i32, -7, -2>(run, 3, -1, 3, -1);
  divide<i8, 7, -2>(run, -3, 1, -4, -1);
  divide<i16, -7, 2>(run, -3, -1, -4, 1);
  divide<i64, -7, -2>(run, 3, -1, 3, -1);
  divide<u8, 200, 7>(run, 28, 4, 28, 4);
  divide<u32, 4000000000u, 7u>(run, 571428571u, 3u, 571428571u, 3u);
}
SECTILE_CASE("P14b/total") { // x / 0 = 0, x mod 0 = x, min / -1 = min: a = q * b + r throughout
  divide<i32, 7, 0>(run, 0, 7, 0, 7);
  divide<i8, -128, -1>(run, -128, 0, -128, 0);
  divide<i64, std::numeric_limits<i64>::min(), -1>(run, std::numeric_limits<i64>::min(), 0,
                                                   std::numeric_limits<i64>::min(), 0);
  divide<u16, 9, 0>(run, 0, 9, 0, 9);
}
SECTILE_CASE("P14b/ceiling") {
  Guarded<i32> x(run, std::vector<i32>{-36, 36, -35, 35, 1, -1, 0, 4, 5, 6, -4, -5, -6, 9, 10, 11}),
      y(run, 16);
  run.sweep(
      {&y}, [&](const Config &c) { ceiling<i32>.with(c)(run.stream(), x.view(16), y.view(16)); },
      [&] {
        run.same(y.get(), {-7, 8, -7, 7, 1, 0, 0, 1, 1, 2, 0, -1, -1, 2, 2, 3}, "ceiling of x / 5");
      });
}
SECTILE_CASE("P14c/i8") { integers<i8>(run, {127, -128, 127, -128, 0, 1, -1, 127}); }
SECTILE_CASE("P14c/u8") { integers<u8>(run, {255, 0, 255, 0, 0, 1, 0, 255}); }
SECTILE_CASE("P14c/i16") { integers<i16>(run, {32767, -32768, 510, -200, 0, 1, -1, 32767}); }
SECTILE_CASE("P14c/i32") {
  integers<i32>(run, {std::numeric_limits<i32>::max(), std::numeric_limits<i32>::min(), 510, -200, 0, 1, -1,
                      std::numeric_limits<i32>::max()});
}
SECTILE_CASE("P14c/u64") {
  integers<u64>(run, {std::numeric_limits<u64>::max(), 0, 510, 0, 0, 1, 0, 3000000000u});
}
SECTILE_CASE("P16d/f32") { preciseDivision<f32>(run); }
SECTILE_CASE("P16d/f64") { preciseDivision<f64>(run); }
