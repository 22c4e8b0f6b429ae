// SPDX-License-Identifier: Apache-2.0
/// \file Small inputs with their right values, known to have gone wrong elsewhere; names as in the list of
/// cases.
#include "tests/support/InterpHarness.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace sectile;
using namespace sectile::test;

namespace {

const float inf = std::numeric_limits<float>::infinity(), qnan = std::numeric_limits<float>::quiet_NaN();

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Loads tile %x of X, runs `body`, stores tile %y to Y. Types: rank 1 of the given lengths.
std::string mapText(std::int64_t n, DType from, std::int64_t m, DType to, const std::string &body) {
  std::string X = tensorType(1, from), Y = tensorType(1, to), x = tileType({n}, from), y = tileType({m}, to);
  return kernelText("%X: " + X + ", %Y: " + Y,
                    "%zero = tile.constant 0 : index\n%x = tile.load %X[%zero] : " + X + " -> " + x + "\n" +
                        body + "\ntile.store %y, %Y[%zero] : " + y + ", " + Y);
}

} // namespace

TEST_CASE("P03 copy n floats", "[interp][cases]") {
  for (std::int64_t n : {1, 3, 15, 17, 60, 61, 62, 63, 64, 65}) {
    std::string text = kernelText("%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>", R"(
      %i = tile.grid %X [64] : !tile.tensor<1, f32> -> index
      %x = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
      tile.store %x, %Y[%i] : tensor<64xf32>, !tile.tensor<1, f32>)");
    Host<f32> x({n});
    for (std::int64_t i = 0; i < n; ++i)
      x[std::size_t(i)] = float(i);
    Host<f32> y({n}, {1}, 16, std::vector<f32>(std::size_t(n) + 32, -1.0f)); // guards on both sides
    interpret(text, x, y);
    for (std::int64_t i = -16; i < n + 16; ++i)
      CHECK(y[std::size_t(i + 16)] == (i >= 0 && i < n ? float(i) : -1.0f));
  }
}

TEST_CASE("P04 reverse, step and rotate", "[interp][cases]") {
  const std::string copy =
      mapText(64, DType::i32, 64, DType::i32, "%y = tile.binary max %x, %x : tensor<64xi32>");
  std::vector<i32> values(64);
  for (int i = 0; i < 64; ++i)
    values[std::size_t(i)] = i;
  for (std::int64_t n : {2, 64}) {
    Host<i32> x({n}, {-1}, n - 1, values), y({n});
    interpret(copy, x, y);
    for (std::int64_t i = 0; i < n; ++i)
      CHECK(y[std::size_t(i)] == n - 1 - i);
  }
  Host<i32> every({32}, {-2}, 62, values), y({32});
  interpret(copy, every, y);
  for (int i = 0; i < 32; ++i)
    CHECK(y[std::size_t(i)] == 62 - 2 * i);

  const std::string rotate = kernelText("%X: !tile.tensor<1, i32>, %Y: !tile.tensor<1, i32>", R"(
    %zero = tile.constant 0 : index
    %i = tile.iota 0 : tensor<64xindex>
    %one = tile.constant dense<1> : tensor<64xindex>
    %n = tile.constant dense<64> : tensor<64xindex>
    %next = tile.binary add %i, %one : tensor<64xindex>
    %at = tile.binary floormod %next, %n : tensor<64xindex>
    %v = tile.gather %X[%at] : !tile.tensor<1, i32>, (tensor<64xindex>) -> tensor<64xi32>
    tile.store %v, %Y[%zero] : tensor<64xi32>, !tile.tensor<1, i32>)");
  auto x = Host<i32>::of(values);
  Host<i32> r({64});
  interpret(rotate, x, r);
  for (int i = 0; i < 64; ++i)
    CHECK(r[std::size_t(i)] == (i + 1) % 64);
}

TEST_CASE("P09 padding is neither counted nor summed", "[interp][cases]") {
  const std::string count = mapText(1024, DType::i32, 1, DType::i32, R"(
    %c0 = tile.constant dense<0> : tensor<1024xi32>
    %m = tile.compare eq %x, %c0 : tensor<1024xi32> -> tensor<1024xi1>
    %n = tile.cast %m : tensor<1024xi1> -> tensor<1024xi32>
    %y = tile.reduce sum %n, 0 : tensor<1024xi32> -> tensor<1xi32>)");
  Host<i32> x({1000}), y({1});
  for (int i = 0; i < 1000; ++i)
    x[std::size_t(i)] = i % 4;
  interpret(count, x, y);
  CHECK(y[0] == 250);

  for (auto [width, n, sum] :
       std::vector<std::array<std::int64_t, 3>>{{48, 48, 1176}, {512, 300, 45150}, {300, 300, 45150}}) {
    const std::string text =
        mapText(width, DType::i32, 1, DType::i32,
                "%y = tile.reduce sum %x, 0 : " + tileType({width}, DType::i32) + " -> tensor<1xi32>");
    Host<i32> v({n}), s({1});
    for (std::int64_t i = 0; i < n; ++i)
      v[std::size_t(i)] = i32(i + 1);
    interpret(text, v, s);
    CHECK(s[0] == sum);
  }

  const std::string down = kernelText("%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%zero, %zero] : !tile.tensor<2, f32> -> tensor<32x3xf32>
    %y = tile.reduce max %x, 0 : tensor<32x3xf32> -> tensor<1x3xf32>
    tile.store %y, %Y[%zero, %zero] : tensor<1x3xf32>, !tile.tensor<2, f32>)");
  Host<f32> table({32, 3}), most({1, 3});
  for (int i = 0; i < 96; ++i)
    table[std::size_t(i)] = float(i);
  interpret(down, table, most);
  CHECK(most.data == std::vector<f32>{93, 94, 95});

  for (std::string kind : {"max", "sum"}) {
    const std::string text = replaced(kernelText("%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>", R"(
      %zero = tile.constant 0 : index
      %x = tile.load %X[%zero, %zero] : !tile.tensor<2, f32> -> tensor<16x1xf32>
      %y = tile.reduce KIND %x, 1 : tensor<16x1xf32> -> tensor<16x1xf32>
      tile.store %y, %Y[%zero, %zero] : tensor<16x1xf32>, !tile.tensor<2, f32>)"),
                                      "KIND", kind);
    Host<f32> v({16, 1}), r({16, 1});
    for (int i = 0; i < 16; ++i)
      v[std::size_t(i)] = float(i) * 0.5f - 3;
    interpret(text, v, r);
    CHECK(r.data == v.data);
  }
}

TEST_CASE("P10 casts to and from fp8", "[interp][cases]") {
  auto toFp8 = [](DType to, std::vector<float> in) {
    std::string t = typeName(to);
    const std::string text =
        mapText(16, DType::f32, 16, to, "%y = tile.cast %x : tensor<16xf32> -> tensor<16x" + t + ">");
    auto x = Host<f32>::of(in);
    Host<u8> y({std::int64_t(in.size())});
    interpret(text, x, y);
    return y.data;
  };
  CHECK(toFp8(DType::e5m2, {0.3f, 61439, 61440, 1e6f, inf, -0.3f, -61440, -inf}) ==
        std::vector<u8>{0x35, 0x7b, 0x7b, 0x7b, 0x7b, 0xb5, 0xfb, 0xfb});
  CHECK(toFp8(DType::e4m3, {0.3f, 448, 464, 465, inf, -0.3f, -465, -inf}) ==
        std::vector<u8>{0x2a, 0x7e, 0x7e, 0x7e, 0x7e, 0xaa, 0xfe, 0xfe});
  CHECK((toFp8(DType::e4m3, {qnan})[0] & 0x7f) == 0x7f);
  CHECK((toFp8(DType::e5m2, {qnan})[0] & 0x7f) > 0x7c);

  for (DType from : {DType::e4m3, DType::e5m2}) {
    Host<u8> codes({256});
    for (int i = 0; i < 256; ++i)
      codes[std::size_t(i)] = u8(i);
    auto widen = [&]<class T>(T) {
      const std::string text = mapText(256, from, 256, dtypeOf<T>,
                                       "%y = tile.cast %x : tensor<256x" + typeName(from) +
                                           "> -> tensor<256x" + typeName(dtypeOf<T>) + ">");
      Host<T> y({256});
      interpret(text, codes, y);
      for (int i = 0; i < 256; ++i) {
        int exponentBits = from == DType::e4m3 ? 4 : 5, mantissaBits = 7 - exponentBits;
        int exponent = i >> mantissaBits & ((1 << exponentBits) - 1),
            mantissa = i & ((1 << mantissaBits) - 1);
        float got = float(y[std::size_t(i)]), sign = i & 0x80 ? -1.0f : 1.0f;
        if (from == DType::e4m3 ? (i & 0x7f) == 0x7f : (i & 0x7f) > 0x7c) {
          CHECK(std::isnan(got));
        } else if (from == DType::e5m2 && (i & 0x7f) == 0x7c) {
          CHECK(got == sign * inf);
        } else {
          int bias = from == DType::e4m3 ? 7 : 15;
          float value =
              exponent ? std::ldexp(float((1 << mantissaBits) + mantissa), exponent - bias - mantissaBits)
                       : std::ldexp(float(mantissa), 1 - bias - mantissaBits);
          CHECK(got == sign * value);
          CHECK(std::signbit(got) == std::signbit(sign));
        }
      }
    };
    widen(bf16());
    widen(f16());
    widen(f32());
  }
}

namespace {

template <class T> void checkNanExtremes() {
  for (std::string kind : {"max", "maxnum", "min", "minnum"}) {
    const std::string t = typeName(dtypeOf<T>);
    const std::string whole =
        mapText(64, dtypeOf<T>, 1, dtypeOf<T>,
                "%y = tile.reduce " + kind + " %x, 0 : tensor<64x" + t + "> -> tensor<1x" + t + ">");
    // The same as a running extreme over four tiles.
    const std::string running =
        replaced(replaced(kernelText("%X: !tile.tensor<1, T>, %Y: !tile.tensor<1, T>", R"(
      %zero = tile.constant 0 : index
      %s = tile.constant 16 : index
      %n = tile.dim %X, 0 : !tile.tensor<1, T>
      %first = tile.load %X[%zero] : !tile.tensor<1, T> -> tensor<16xT>
      %r = scf.for %i = %s to %n step %s iter_args(%m = %first) -> tensor<16xT> {
        %x = tile.load %X[%i] : !tile.tensor<1, T> -> tensor<16xT>
        %next = tile.binary KIND %m, %x : tensor<16xT>
        scf.yield %next : tensor<16xT>
      }
      %y = tile.reduce KIND %r, 0 : tensor<16xT> -> tensor<1xT>
      tile.store %y, %Y[%zero] : tensor<1xT>, !tile.tensor<1, T>)"),
                          "KIND", kind),
                 "T>", t + ">");
    bool propagates = kind == "max" || kind == "min";
    for (const std::vector<int> &at : {std::vector<int>{0}, {17}, {63}, {}}) {
      for (const std::string &text : {whole, running}) {
        Host<T> x({64}, T(inf)), y({1});
        for (int i : at)
          x[std::size_t(i)] = T(qnan);
        interpret(text, x, y);
        CHECK(std::isnan(float(y[0])) == (propagates && !at.empty()));
        if (!propagates || at.empty())
          CHECK(float(y[0]) == inf);
      }
    }
    for (const std::string &text : {whole, running}) {
      Host<T> x({64}, T(qnan)), y({1});
      interpret(text, x, y);
      CHECK(std::isnan(float(y[0])));
    }
  }
}

} // namespace

TEST_CASE("P11 extremes with NaN", "[interp][cases]") {
  checkNanExtremes<f16>();
  checkNanExtremes<bf16>();
  checkNanExtremes<f32>();
  checkNanExtremes<f64>();
}

TEST_CASE("P12 position of the maximum", "[interp][cases]") {
  const std::string text = mapText(512, DType::f32, 1, DType::i64, R"(
    %p = tile.reduce argmax %x, 0 : tensor<512xf32> -> tensor<1xindex>
    %y = tile.cast %p : tensor<1xindex> -> tensor<1xi64>)");
  auto position = [&](const std::vector<f32> &values) {
    auto x = Host<f32>::of(values);
    Host<i64> y({1}, -1);
    interpret(text, x, y);
    return y[0];
  };
  std::vector<f32> v(300, 1.0f);
  v[5] = v[261] = 9;
  CHECK(position(v) == 5);
  CHECK(position(std::vector<f32>(300, 3.0f)) == 0);
  CHECK(position(std::vector<f32>(300, -inf)) == 0);
  v[100] = v[200] = qnan;
  CHECK(position(v) == 100);
}

TEST_CASE("P13 truth values", "[interp][cases]") {
  const std::string count = mapText(512, DType::boolean, 1, DType::boolean, R"(
    %i = tile.cast %x : tensor<512xi1> -> tensor<512xi32>
    %n = tile.reduce sum %i, 0 : tensor<512xi32> -> tensor<1xi32>
    %y = tile.cast %n : tensor<1xi32> -> tensor<1xi1>)");
  for (int trues : {256, 255, 512, 0}) {
    Host<Truth> x({std::max(trues, 1)}, Truth{std::uint8_t(trues > 0)}), y({1}, Truth{0xff});
    interpret(count, x, y);
    CHECK(int(y[0].byte) == (trues > 0));
  }
  const std::string ops = mapText(64, DType::boolean, 64, DType::boolean, R"(
    %t = tile.constant dense<true> : tensor<64xi1>
    %n = tile.unary bitnot %x : tensor<64xi1> -> tensor<64xi1>
    %lt = tile.compare lt %x, %n : tensor<64xi1> -> tensor<64xi1>
    %y = tile.binary bitand %lt, %t : tensor<64xi1>)");
  Host<Truth> x({64}), y({64}, Truth{0xff});
  for (int i = 0; i < 64; ++i)
    x[std::size_t(i)].byte = std::uint8_t(i % 2 ? (i % 3 ? 1 : 0xff) : 0); // any byte but 0 is true
  interpret(ops, x, y);
  for (int i = 0; i < 64; ++i)
    CHECK(int(y[std::size_t(i)].byte) == (i % 2 == 0)); // false < true holds, true < false does not
}

namespace {

/// fn(a, b) once with constants, once as tile values from memory; both must agree.
template <class T> T both(const std::string &fn, T a, T b) {
  std::string t = typeName(dtypeOf<T>), tile = "tensor<4x" + t + ">";
  auto literal = [&](T v) { return "dense<" + std::to_string(v) + "> : " + tile; };
  std::string op = "tile.binary " + fn + " %a, %b : " + tile;
  std::string args = "%A: !tile.tensor<1, T>, %B: !tile.tensor<1, T>, %Y: !tile.tensor<1, T>";
  std::string store = "\ntile.store %y, %Y[%zero] : " + tile + ", !tile.tensor<1, T>";
  std::string constants = "%zero = tile.constant 0 : index\n%a = tile.constant " + literal(a) +
                          "\n%b = tile.constant " + literal(b) + "\n%y = " + op + store;
  std::string loads = "%zero = tile.constant 0 : index\n%a = tile.load %A[%zero] : !tile.tensor<1, T> -> " +
                      tile + "\n%b = tile.load %B[%zero] : !tile.tensor<1, T> -> " + tile + "\n%y = " + op +
                      store;
  Host<T> x({4}, a), y({4}, b), r({4}), s({4});
  interpret(replaced(kernelText(args, constants), ", T>", ", " + t + ">"), x, y, r);
  interpret(replaced(kernelText(args, loads), ", T>", ", " + t + ">"), x, y, s);
  CHECK(r.data == s.data);
  return s[3];
}

} // namespace

TEST_CASE("P14 shifts, divisions, casts to integers", "[interp][cases]") {
  CHECK(both<i8>("shr", -128, 5) == -4);
  CHECK(both<u8>("shr", 128, 5) == 4);
  CHECK(both<u16>("shr", 0x8000, 5) == 1024);
  CHECK(both<i32>("shr", -1, 5) == -1);
  CHECK(both<u32>("shr", 0x80000000u, 31) == 1);
  CHECK(both<i32>("shl", 1, 32) == 0);
  CHECK(both<i32>("shr", -5, 99) == -1);
  struct Division {
    i32 a, b, q, r, fq, fr;
  };
  for (auto [a, b, q, r, fq, fr] :
       {Division{7, -2, -3, 1, -4, -1}, {-7, 2, -3, -1, -4, 1}, {-7, -2, 3, -1, 3, -1}, {9, 0, 0, 9, 0, 9}}) {
    CHECK(both<i32>("div", a, b) == q);
    CHECK(both<i32>("rem", a, b) == r);
    CHECK(both<i32>("floordiv", a, b) == fq);
    CHECK(both<i32>("floormod", a, b) == fr);
  }
  CHECK(-both<i32>("floordiv", 36, 5) == -7); // ceiling of -36 / 5 by way of the floor
  CHECK(both<i64>("div", INT64_MIN + 1, -1) == INT64_MAX);

  const std::string text =
      mapText(4, DType::f32, 4, DType::i8, "%y = tile.cast %x : tensor<4xf32> -> tensor<4xi8>");
  auto x = Host<f32>::of({inf, 510, -200, qnan});
  Host<i8> y({4});
  interpret(text, x, y);
  CHECK(y.data == std::vector<i8>{127, 127, -128, 0});
  const std::string constants = mapText(1, DType::f32, 4, DType::i8, R"(
    %c = tile.constant dense<5.1e+02> : tensor<4xf32>
    %y = tile.cast %c : tensor<4xf32> -> tensor<4xi8>)");
  interpret(constants, x, y);
  CHECK(y.data == std::vector<i8>{127, 127, 127, 127});
}

TEST_CASE("P16 products and quotients", "[interp][cases]") {
  const std::string mma =
      kernelText("%A: !tile.tensor<2, IN>, %B: !tile.tensor<2, IN>, %C: !tile.tensor<2, OUT>", R"(
    %zero = tile.constant 0 : index
    %a = tile.load %A[%zero, %zero] : !tile.tensor<2, IN> -> tensor<1xKxIN>
    %b = tile.load %B[%zero, %zero] : !tile.tensor<2, IN> -> tensor<Kx1xIN>
    %acc = tile.constant dense<ZERO> : tensor<1x1xOUT>
    %c = tile.mma POLICY %a, %b, %acc : tensor<1xKxIN>, tensor<Kx1xIN>, tensor<1x1xOUT>
    tile.store %c, %C[%zero, %zero] : tensor<1x1xOUT>, !tile.tensor<2, OUT>)");
  auto variant = [&](const std::string &in, const std::string &out, const std::string &zero,
                     const std::string &k, const std::string &policy) {
    return replaced(replaced(replaced(replaced(replaced(mma, "OUT", out), "ZERO", zero), "POLICY", policy),
                             "IN>", in + ">"),
                    "xKx", "x" + k + "x");
  };
  auto sized = [&](std::string text, const std::string &k) { return replaced(text, "<Kx", "<" + k + "x"); };

  Host<i8> a({1, 64}, i8(127)), b({64, 1}, i8(-128));
  Host<i32> c({1, 1});
  interpret(sized(variant("i8", "i32", "0", "64", "exact"), "64"), a, b, c);
  CHECK(c[0] == -1040384);

  Host<f32> x({1, 16}), y({16, 1}), r({1, 1});
  x[0] = 1 + 0x1p-12f;
  y[0] = 1;
  interpret(sized(variant("f32", "f32", "0.0", "16", "exact"), "16"), x, y, r);
  CHECK(r[0] == 1.000244140625f);
  interpret(sized(variant("f32", "f32", "0.0", "16", "tf32"), "16"), x, y, r);
  CHECK(r[0] == 1.0f);

  const std::string divide = mapText(2, DType::f32, 2, DType::f32, R"(
    %c = tile.constant dense<0.9375> : tensor<2xf32>
    %y = tile.binary div %x, %c : tensor<2xf32>)");
  Host<f32> n({2}, 4.6875f), q({2});
  interpret(divide, n, q);
  CHECK(q[0] == 5.0f);
}

TEST_CASE("P17 values carried round loops", "[interp][cases]") {
  SECTION("three carried values") {
    const std::string text = kernelText("%Y: !tile.tensor<1, f32>, %n: index", R"(
      %zero = tile.constant 0 : index
      %one = tile.constant 1 : index
      %f1 = tile.constant 1.0 : f32
      %d = tile.constant 12.0 : f32
      %r:3 = scf.for %i = %zero to %n step %one iter_args(%num = %f1, %den = %d, %out = %d) -> (f32, f32, f32) {
        %q = tile.binary div %num, %den : f32
        scf.yield %num, %den, %q : f32, f32, f32
      }
      %t = tile.splat %r#2 : f32 -> tensor<1xf32>
      tile.store %t, %Y[%zero] : tensor<1xf32>, !tile.tensor<1, f32>)");
    for (std::int64_t trips : {0, 1, 2, 3}) {
      Host<f32> y({1});
      interpret(text, y, scalarArg(trips));
      CHECK(y[0] == (trips ? 1.0f / 12.0f : 12.0f));
    }
  }
  SECTION("swap in a loop") {
    const std::string text = kernelText("%Y: !tile.tensor<1, i32>, %n: index", R"(
      %zero = tile.constant 0 : index
      %one = tile.constant 1 : index
      %c0 = tile.constant dense<0> : tensor<3xi32>
      %c1 = tile.constant dense<1> : tensor<3xi32>
      %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %c0, %b = %c1) -> (tensor<3xi32>, tensor<3xi32>) {
        %s = tile.binary add %a, %b : tensor<3xi32>
        scf.yield %b, %s : tensor<3xi32>, tensor<3xi32>
      }
      %three = tile.constant 3 : index
      tile.store %r#0, %Y[%zero] : tensor<3xi32>, !tile.tensor<1, i32>
      tile.store %r#1, %Y[%three] : tensor<3xi32>, !tile.tensor<1, i32>)");
    Host<i32> y({6});
    interpret(text, y, scalarArg(std::int64_t(10)));
    CHECK(y.data == std::vector<i32>{55, 55, 55, 89, 89, 89});
    const std::string swap = replaced(text, "scf.yield %b, %s", "scf.yield %b, %a");
    interpret(swap, y, scalarArg(std::int64_t(3)));
    CHECK(y.data == std::vector<i32>{1, 1, 1, 0, 0, 0});
    const std::string twice = replaced(text, "scf.yield %b, %s", "scf.yield %s, %s");
    interpret(twice, y, scalarArg(std::int64_t(3)));
    CHECK(y.data == std::vector<i32>{4, 4, 4, 4, 4, 4});
  }
  SECTION("tensor and stride replaced in the loop") {
    const std::string text =
        kernelText("%A: !tile.tensor<1, i32>, %B: !tile.tensor<1, i32>, %Y: !tile.tensor<1, i32>", R"(
      %zero = tile.constant 0 : index
      %one = tile.constant 1 : index
      %three = tile.constant 3 : index
      %n = tile.constant 12 : index
      %r:2 = scf.for %i = %zero to %n step %three iter_args(%src = %A, %stride = %one) -> (!tile.tensor<1, i32>, index) {
        %at = tile.binary mul %i, %stride : index
        %v = tile.load %src[%at] : !tile.tensor<1, i32> -> tensor<1xi32>
        %to = tile.binary div %i, %three : index
        tile.store %v, %Y[%to] : tensor<1xi32>, !tile.tensor<1, i32>
        scf.yield %B, %one : !tile.tensor<1, i32>, index
      })");
    Host<i32> a({12}), b({12}), y({4});
    for (int i = 0; i < 12; ++i) {
      a[std::size_t(i)] = i;
      b[std::size_t(i)] = 100 + i;
    }
    interpret(text, a, b, y);
    CHECK(y.data == std::vector<i32>{0, 103, 106, 109});
  }
  SECTION("a while loop with an if") {
    const std::string text = kernelText("%Y: !tile.tensor<1, i32>, %start: i32", R"(
      %zero = tile.constant 0 : index
      %c0 = tile.constant 0 : i32
      %c1 = tile.constant 1 : i32
      %c2 = tile.constant 2 : i32
      %c3 = tile.constant 3 : i32
      %r:2 = scf.while (%x = %start, %n = %c0) : (i32, i32) -> (i32, i32) {
        %go = tile.compare ne %x, %c1 : i32 -> i1
        scf.condition(%go) %x, %n : i32, i32
      } do {
      ^bb0(%x: i32, %n: i32):
        %rem = tile.binary rem %x, %c2 : i32
        %even = tile.compare eq %rem, %c0 : i32 -> i1
        %next = scf.if %even -> i32 {
          %h = tile.binary div %x, %c2 : i32
          scf.yield %h : i32
        } else {
          %t = tile.binary mul %x, %c3 : i32
          %u = tile.binary add %t, %c1 : i32
          scf.yield %u : i32
        }
        %m = tile.binary add %n, %c1 : i32
        scf.yield %next, %m : i32, i32
      }
      %t = tile.splat %r#1 : i32 -> tensor<1xi32>
      tile.store %t, %Y[%zero] : tensor<1xi32>, !tile.tensor<1, i32>)");
    Host<i32> y({1});
    interpret(text, y, scalarArg(i32(27)));
    CHECK(y[0] == 111);
    interpret(text, y, scalarArg(i32(1)));
    CHECK(y[0] == 0);
  }
}

TEST_CASE("P18b tiles of any width", "[interp][cases]") {
  for (std::int64_t width : {24, 40, 48, 96, 1, 3, 129}) {
    const std::string w = std::to_string(width);
    const std::string text = replaced(kernelText("%D: !tile.tensor<1, f32>, %Y: !tile.tensor<2, f32>", R"(
      %zero = tile.constant 0 : index
      %d = tile.load %D[%zero] : !tile.tensor<1, f32> -> tensor<Wxf32>
      %row = tile.reshape %d : tensor<Wxf32> -> tensor<1xWxf32>
      %x = tile.broadcast %row : tensor<1xWxf32> -> tensor<8xWxf32>
      %two = tile.constant dense<2.0> : tensor<8xWxf32>
      %y = tile.binary mul %x, %two : tensor<8xWxf32>
      tile.store %y, %Y[%zero, %zero] : tensor<8xWxf32>, !tile.tensor<2, f32>)"),
                                      "Wxf32", w + "xf32");
    Host<f32> d({width}), y({8, width});
    for (std::int64_t j = 0; j < width; ++j)
      d[std::size_t(j)] = float(j);
    interpret(text, d, y);
    for (std::int64_t i = 0; i < 8 * width; ++i)
      CHECK(y[std::size_t(i)] == 2.0f * float(i % width));
  }
}
