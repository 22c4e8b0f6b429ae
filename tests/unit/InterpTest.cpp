// SPDX-License-Identifier: Apache-2.0
/// \file The interpreter on whole kernels: tails, views, control flow, bounded `tgpu` accesses, refusals.
#include "tests/support/InterpHarness.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>
#include <thread>

using namespace sectile;
using namespace sectile::test;

namespace {

std::vector<float> randomFloats(std::size_t n, unsigned seed = 1) {
  std::mt19937 gen(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(n);
  for (float &x : v)
    x = uniform(gen);
  return v;
}

const std::string vectorSum = kernelText("%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>", R"(
    %i = tile.grid %X [64] : !tile.tensor<1, f32> -> index
    %x = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
    %s = tile.binary add %x, %x : tensor<64xf32>
    tile.store %s, %Y[%i] : tensor<64xf32>, !tile.tensor<1, f32>)");

} // namespace

TEST_CASE("a vector sum leaves memory past the end alone", "[interp]") {
  for (std::int64_t n : {0, 1, 63, 64, 65, 1000}) {
    Host<f32> x({n}), y({n + 8}, -1.0f);
    for (std::int64_t i = 0; i < n; ++i)
      x[std::size_t(i)] = float(i);
    interpret(vectorSum, x, y);
    for (std::int64_t i = 0; i < n + 8; ++i)
      CHECK(y[std::size_t(i)] == (i < n ? 2.0f * float(i) : -1.0f));
  }
}

TEST_CASE("a matrix product skips missing K lanes, even against NaN", "[interp]") {
  const std::string text =
      kernelText("%A: !tile.tensor<2, bf16>, %B: !tile.tensor<2, bf16>, %C: !tile.tensor<2, f32>", R"(
    %m, %n = tile.grid %C [32, 16] : !tile.tensor<2, f32> -> index, index
    %zero = tile.constant 0 : index
    %step = tile.constant 16 : index
    %K = tile.dim %A, 1 : !tile.tensor<2, bf16>
    %init = tile.constant dense<0.0> : tensor<32x16xf32>
    %r = scf.for %k = %zero to %K step %step iter_args(%acc = %init) -> tensor<32x16xf32> {
      %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
      %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x16xbf16>
      %next = tile.mma exact %a, %b, %acc : tensor<32x16xbf16>, tensor<16x16xbf16>, tensor<32x16xf32>
      scf.yield %next : tensor<32x16xf32>
    }
    tile.store %r, %C[%m, %n] : tensor<32x16xf32>, !tile.tensor<2, f32>)");
  for (auto [M, N, K] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {33, 17, 15}, {70, 40, 50}, {32, 16, 16}}) {
    // Rows of A have a pitch, and NaN waits behind the last column; B is longer than K.
    std::int64_t pitch = K + 3;
    std::vector<bf16> a(std::size_t(M * pitch), bf16(NAN)), b(std::size_t((K + 1) * N), bf16(NAN));
    auto ra = randomFloats(a.size(), 2), rb = randomFloats(b.size(), 3);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t k = 0; k < K; ++k)
        a[std::size_t(m * pitch + k)] = bf16(ra[std::size_t(m * K + k)]);
    for (std::int64_t i = 0; i < K * N; ++i)
      b[std::size_t(i)] = bf16(rb[std::size_t(i)]);
    Host<bf16> A({M, K}, {pitch, 1}, 0, a), B({K + 1, N}, {N, 1}, 0, b);
    Host<f32> C({M, N}, -1.0f);
    interpret(text, A, B, C);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        float exact = 0;
        for (std::int64_t k = 0; k < K; ++k)
          exact = std::fma(float(a[std::size_t(m * pitch + k)]), float(b[std::size_t(k * N + n)]), exact);
        CHECK(C[std::size_t(m * N + n)] == exact);
      }
  }
}

TEST_CASE("softmax over rows shorter than the tile", "[interp]") {
  const std::string text = kernelText("%X: !tile.tensor<2, bf16>, %Y: !tile.tensor<2, f32>", R"(
    %r = tile.grid %X [2] : !tile.tensor<2, bf16> -> index
    %zero = tile.constant 0 : index
    %l = tile.load %X[%r, %zero] : !tile.tensor<2, bf16> -> tensor<2x128xbf16>
    %x = tile.cast %l : tensor<2x128xbf16> -> tensor<2x128xf32>
    %m = tile.reduce max %x, 1 : tensor<2x128xf32> -> tensor<2x1xf32>
    %mb = tile.broadcast %m : tensor<2x1xf32> -> tensor<2x128xf32>
    %d = tile.binary sub %x, %mb : tensor<2x128xf32>
    %e = tile.unary exp %d : tensor<2x128xf32> -> tensor<2x128xf32>
    %s = tile.reduce sum %e, 1 : tensor<2x128xf32> -> tensor<2x1xf32>
    %sb = tile.broadcast %s : tensor<2x1xf32> -> tensor<2x128xf32>
    %y = tile.binary div %e, %sb : tensor<2x128xf32>
    tile.store %y, %Y[%r, %zero] : tensor<2x128xf32>, !tile.tensor<2, f32>)");
  for (std::int64_t columns : {1, 7, 100, 128}) {
    const std::int64_t rows = 5;
    Host<bf16> x({rows, columns});
    Host<f32> y({rows, columns});
    auto values = randomFloats(x.data.size(), 4);
    for (std::size_t i = 0; i < values.size(); ++i)
      x[i] = bf16(values[i] - 10); // an exponential of a padding zero would dwarf the others
    interpret(text, x, y);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        sum += std::exp(double(float(x[std::size_t(r * columns + c)])));
      for (std::int64_t c = 0; c < columns; ++c) {
        std::size_t i = std::size_t(r * columns + c);
        CHECK(y[i] == Approx(std::exp(double(float(x[i]))) / sum).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("views: any stride, offsets outside on both sides", "[interp]") {
  const std::string text =
      kernelText("%X: !tile.tensor<2, i32>, %Y: !tile.tensor<2, i32>, %r: index, %c: index", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%r, %c] : !tile.tensor<2, i32> -> tensor<4x6xi32>
    %none = tile.constant -7 : i32
    %y = tile.fill %x, %none : tensor<4x6xi32>, i32
    tile.store %y, %Y[%zero, %zero] : tensor<4x6xi32>, !tile.tensor<2, i32>
    tile.store %x, %Y[%r, %c] : tensor<4x6xi32>, !tile.tensor<2, i32>)");
  std::vector<i32> memory(200);
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = i32(i);
  struct Shape {
    std::int64_t d0, d1, s0, s1, at;
  };
  for (Shape v : {Shape{5, 7, 7, 1, 0},
                  {5, 7, 1, 5, 0},
                  {5, 7, -7, -1, 100},
                  {5, 7, 0, 3, 10},
                  {5, 7, 9, 0, 10},
                  {0, 3, 3, 1, 0}})
    for (std::int64_t r : {std::int64_t(-5), std::int64_t(-3), std::int64_t(0), std::int64_t(2),
                           std::int64_t(5), INT64_MIN, INT64_MAX})
      for (std::int64_t c :
           {std::int64_t(-2), std::int64_t(0), std::int64_t(3), std::int64_t(9), INT64_MIN}) {
        Host<i32> x({v.d0, v.d1}, {v.s0, v.s1}, v.at, memory), y({4, 6}, -1);
        interpret(text, x, y, scalarArg(r), scalarArg(c));
        for (std::int64_t i = 0; i < 4; ++i)
          for (std::int64_t j = 0; j < 6; ++j) {
            // The second store puts lane (i - r, j - c) of the load to (i, j), if it exists.
            bool small = r > -10 && r < 10 && c > -10 && c < 10;
            bool again = small && i - r >= 0 && i - r < 4 && j - c >= 0 && j - c < 6 && i < v.d0 && j < v.d1;
            bool once = small && r + i >= 0 && r + i < v.d0 && c + j >= 0 && c + j < v.d1;
            i32 expected = again  ? i32(v.at + i * v.s0 + j * v.s1)
                           : once ? i32(v.at + (r + i) * v.s0 + (c + j) * v.s1)
                                  : -7;
            CHECK(y[std::size_t(i * 6 + j)] == expected);
          }
      }
}

TEST_CASE("offsets of more than 32 bits reach the element", "[interp]") {
  const std::string text = kernelText("%X: !tile.tensor<1, i8>, %Y: !tile.tensor<1, i8>, %i: index", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%i] : !tile.tensor<1, i8> -> tensor<2xi8>
    tile.store %x, %Y[%zero] : tensor<2xi8>, !tile.tensor<1, i8>)");
  // A view of stride 0 is as long as one likes.
  Host<i8> x({std::int64_t(1) << 40}, {0}, 0, {42}), y({2}, i8(-1));
  interpret(text, x, y, scalarArg((std::int64_t(1) << 40) - 1));
  CHECK(y[0] == 42);
  CHECK(y[1] == -1);
}

TEST_CASE("slices clamp their bounds and end like tensors", "[interp]") {
  const std::string text =
      kernelText("%X: !tile.tensor<1, i32>, %Y: !tile.tensor<1, i32>, %lo: index, %hi: index", R"(
    %zero = tile.constant 0 : index
    %s = tile.slice %X, 0 [%lo to %hi] : !tile.tensor<1, i32>
    %x = tile.load %s[%zero] : !tile.tensor<1, i32> -> tensor<8xi32>
    %none = tile.constant -7 : i32
    %y = tile.fill %x, %none : tensor<8xi32>, i32
    tile.store %y, %Y[%zero] : tensor<8xi32>, !tile.tensor<1, i32>)");
  for (std::int64_t lo : {-3, 0, 2, 5, 6, 9})
    for (std::int64_t hi : {-1, 0, 2, 4, 6, 100}) {
      auto x = Host<i32>::of({10, 11, 12, 13, 14, 15});
      Host<i32> y({8});
      interpret(text, x, y, scalarArg(lo), scalarArg(hi));
      std::int64_t from = std::clamp<std::int64_t>(lo, 0, 6), to = std::clamp<std::int64_t>(hi, 0, 6);
      for (std::int64_t i = 0; i < 8; ++i)
        CHECK(y[std::size_t(i)] == (i < to - from ? 10 + from + i : -7));
    }
}

TEST_CASE("a gather masks lanes whose coordinates fall outside", "[interp]") {
  const std::string text = kernelText("%X: !tile.tensor<2, f32>, %I: !tile.tensor<1, i64>, %Y: "
                                      "!tile.tensor<1, f32>, %Z: !tile.tensor<1, f32>, %row: index",
                                      R"(
    %zero = tile.constant 0 : index
    %i64 = tile.load %I[%zero] : !tile.tensor<1, i64> -> tensor<8xi64>
    %i = tile.cast %i64 : tensor<8xi64> -> tensor<8xindex>
    %v = tile.gather %X[%row, %i] : !tile.tensor<2, f32>, (index, tensor<8xindex>) -> tensor<8xf32>
    %none = tile.constant -7.0 : f32
    %y = tile.fill %v, %none : tensor<8xf32>, f32
    tile.store %y, %Y[%zero] : tensor<8xf32>, !tile.tensor<1, f32>
    tile.store %v, %Z[%zero] : tensor<8xf32>, !tile.tensor<1, f32>)");
  Host<f32> x({2, 4});
  for (std::size_t i = 0; i < 8; ++i)
    x[i] = float(i);
  auto indices = Host<i64>::of({0, 3, -1, 4, 2, INT64_MAX, INT64_MIN}); // the eighth lane does not exist
  for (std::int64_t row : {0, 1, 2, -1}) {
    Host<f32> y({8}), z({8}, -1.0f);
    interpret(text, x, indices, y, z, scalarArg(row));
    for (std::size_t i = 0; i < 8; ++i) {
      bool in = row >= 0 && row < 2 && i < 7 && indices[i] >= 0 && indices[i] < 4;
      float value = in ? float(row * 4 + indices[i]) : 0;
      CHECK(y[i] == (in ? value : -7));
      CHECK(z[i] == (in ? value : -1));
    }
  }
}

TEST_CASE("programs run in ascending order, the last axis fastest", "[interp]") {
  const std::string text =
      kernelText("%X: !tile.tensor<3, i32>, %N: !tile.tensor<1, i32>, %Y: !tile.tensor<1, i64>", R"(
    %a, %b, %c = tile.grid %X [2, 1, 3] : !tile.tensor<3, i32> -> index, index, index
    %zero = tile.constant 0 : index
    %n = tile.load %N[%zero] : !tile.tensor<1, i32> -> tensor<1xi32>
    %one = tile.constant dense<1> : tensor<1xi32>
    %next = tile.binary add %n, %one : tensor<1xi32>
    tile.store %next, %N[%zero] : tensor<1xi32>, !tile.tensor<1, i32>
    %h = tile.constant 100 : index
    %t = tile.constant 10 : index
    %ah = tile.binary mul %a, %h : index
    %bt = tile.binary mul %b, %t : index
    %ab = tile.binary add %ah, %bt : index
    %abc = tile.binary add %ab, %c : index
    %n0 = tile.reshape %n : tensor<1xi32> -> i32
    %at = tile.cast %n0 : i32 -> index
    %v = tile.cast %abc : index -> i64
    %vt = tile.splat %v : i64 -> tensor<1xi64>
    tile.store %vt, %Y[%at] : tensor<1xi64>, !tile.tensor<1, i64>)");
  Host<i32> x({3, 2, 4}), counter({1});
  Host<i64> y({8}, -1);
  interpret(text, x, counter, y);
  CHECK(y.data == std::vector<i64>{0, 3, 10, 13, 200, 203, 210, 213});
  Interpreted k(text);
  REQUIRE(k.program);
  REQUIRE(k.program->grid().size() == 3);
  CHECK(k.program->grid()[2].tile == 3);
  CHECK(k.program->grid()[2].arg == 0);
}

TEST_CASE("branches and nested loops hand tiles on", "[interp]") {
  const std::string text = kernelText("%X: !tile.tensor<1, i32>, %Y: !tile.tensor<1, i32>, %n: i32", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%zero] : !tile.tensor<1, i32> -> tensor<4xi32>
    %c0 = tile.constant 0 : i32
    %c1 = tile.constant 1 : i32
    %c2 = tile.constant 2 : i32
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x) -> (tensor<4xi32>, tensor<4xi32>) : i32 {
      %rem = tile.binary rem %i, %c2 : i32
      %odd = tile.compare eq %rem, %c1 : i32 -> i1
      %s = scf.if %odd -> tensor<4xi32> {
        %t = tile.binary add %a, %b : tensor<4xi32>
        scf.yield %t : tensor<4xi32>
      } else {
        %in = scf.for %j = %c0 to %i step %c1 iter_args(%u = %a) -> tensor<4xi32> : i32 {
          %one = tile.constant dense<1> : tensor<4xi32>
          %w = tile.binary add %u, %one : tensor<4xi32>
          scf.yield %w : tensor<4xi32>
        }
        scf.yield %in : tensor<4xi32>
      }
      scf.if %odd {
        tile.store %s, %Y[%zero] : tensor<4xi32>, !tile.tensor<1, i32>
      }
      scf.yield %s, %a : tensor<4xi32>, tensor<4xi32>
    }
    %four = tile.constant 4 : index
    tile.store %r#0, %Y[%four] : tensor<4xi32>, !tile.tensor<1, i32>
    %eight = tile.constant 8 : index
    tile.store %r#1, %Y[%eight] : tensor<4xi32>, !tile.tensor<1, i32>)");
  for (i32 n : {0, 1, 2, 3, 7, -2}) {
    auto x = Host<i32>::of({1, 2, 3, 4});
    Host<i32> y({12}, -1);
    interpret(text, x, y, scalarArg(n));
    for (i32 lane = 0; lane < 4; ++lane) {
      i32 a = lane + 1, b = lane + 1, stored = -1;
      for (i32 i = 0; i < n; ++i) {
        i32 s = i % 2 ? a + b : a + i;
        if (i % 2)
          stored = s;
        b = a;
        a = s;
      }
      CHECK(y[std::size_t(lane)] == stored);
      CHECK(y[std::size_t(lane) + 4] == a);
      CHECK(y[std::size_t(lane) + 8] == b);
    }
  }
}

TEST_CASE("a constant that a loop hands on stays what it is", "[interp]") {
  const std::string text = kernelText("%Y: !tile.tensor<1, i32>, %n: index", R"(
    %zero = tile.constant 0 : index
    %one = tile.constant 1 : index
    %c5 = tile.constant dense<5> : tensor<4xi32>
    %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %c5, %b = %c5) -> (tensor<4xi32>, tensor<4xi32>) {
      %c3 = tile.constant dense<3> : tensor<4xi32>
      %s = tile.binary add %a, %c3 : tensor<4xi32>
      scf.yield %c3, %s : tensor<4xi32>, tensor<4xi32>
    }
    %four = tile.constant 4 : index
    tile.store %r#0, %Y[%zero] : tensor<4xi32>, !tile.tensor<1, i32>
    tile.store %r#1, %Y[%four] : tensor<4xi32>, !tile.tensor<1, i32>)");
  for (std::int64_t n : {0, 1, 2, 5}) {
    Host<i32> y({8});
    interpret(text, y, scalarArg(n));
    CHECK(y[0] == (n ? 3 : 5));
    CHECK(y[7] == (n == 0 ? 5 : n == 1 ? 8 : 6));
  }
}

TEST_CASE("the part of arith that is total runs, a step below 1 makes no trip", "[interp]") {
  const std::string text = kernelText("%Y: !tile.tensor<1, i32>, %n: index, %s: index", R"(
    %zero = arith.constant 0 : index
    %c0 = arith.constant 0 : i32
    %c7 = arith.constant 7 : i32
    %r = scf.for %i = %zero to %n step %s iter_args(%a = %c0) -> (i32) {
      %v = arith.index_cast %i : index to i32
      %odd = arith.andi %v, %c7 : i32
      %less = arith.cmpi ult, %v, %c7 : i32
      %w = arith.select %less, %odd, %c7 : i32
      %m = arith.maxsi %a, %w : i32
      %sum = arith.addi %m, %w : i32
      scf.yield %sum : i32
    }
    %t = tile.splat %r : i32 -> tensor<1xi32>
    tile.store %t, %Y[%zero] : tensor<1xi32>, !tile.tensor<1, i32>)");
  for (auto [n, s] :
       std::vector<std::array<std::int64_t, 2>>{{0, 1}, {12, 1}, {12, 5}, {12, 0}, {12, -1}, {-3, 1}}) {
    i32 a = 0;
    for (std::int64_t i = 0; s > 0 && i < n; i += s) {
      i32 w = i < 7 ? i32(i & 7) : 7;
      a = std::max(a, w) + w;
    }
    Host<i32> y({1}, -1);
    interpret(text, y, scalarArg(n), scalarArg(s));
    CHECK(y[0] == a);
  }
}

TEST_CASE("bounded accesses after tails are resolved", "[interp]") {
  const std::string text =
      kernelText("%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>, %lo: index, %hi: index", R"(
    %zero = tile.constant 0 : index
    %one = tile.constant 1 : index
    %x = tgpu.global_load %X[%one, %zero] axes [1] lo [%lo] hi [%hi] pad 5.0 : f32 : !tile.tensor<2, f32> -> tensor<2x4xf32>
    %c = tile.constant dense<3.0> : tensor<2x4xf32>
    %m = tile.compare ne %x, %c : tensor<2x4xf32> -> tensor<2x4xi1>
    tgpu.global_store %x, %Y[%zero, %zero] axes [0, 1] lo [%zero, %lo] hi [%one, %hi] : tensor<2x4xf32>, !tile.tensor<2, f32>
    %two = tile.constant 2 : index
    tgpu.global_store %x, %Y[%two, %zero] axes [] lo [] hi [] mask %m : tensor<2x4xi1> : tensor<2x4xf32>, !tile.tensor<2, f32>)");
  Host<f32> x({3, 4}), y({4, 4}, -1.0f);
  for (std::size_t i = 0; i < 12; ++i)
    x[i] = float(i % 4);
  interpret(text, x, y, scalarArg(std::int64_t(1)), scalarArg(std::int64_t(3)));
  CHECK(y.data == std::vector<f32>{-1, 1, 2, -1, -1, -1, -1, -1, 5, 1, 2, 5, 5, 1, 2, 5});

  SECTION("a wrong proof shows as NaN and touches nothing") {
    Host<f32> shortX({2, 4}, 1.0f), out({4, 4}, -1.0f); // row 1 + 1 does not exist
    interpret(text, shortX, out, scalarArg(std::int64_t(0)), scalarArg(std::int64_t(4)));
    CHECK(out[8] == 1.0f);
    CHECK(std::isnan(out[12]));
  }
}

TEST_CASE("a masked gather reads zero where the mask fails", "[interp]") {
  const std::string text = kernelText("%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>, %n: index", R"(
    %zero = tile.constant 0 : index
    %i = tile.iota 0 : tensor<8xindex>
    %nt = tile.splat %n : index -> tensor<8xindex>
    %m = tile.compare lt %i, %nt : tensor<8xindex> -> tensor<8xi1>
    %v = tgpu.global_gather %X[%i] mask %m : !tile.tensor<1, f32>, (tensor<8xindex>), tensor<8xi1> -> tensor<8xf32>
    tile.store %v, %Y[%zero] : tensor<8xf32>, !tile.tensor<1, f32>)");
  auto x = Host<f32>::of({1, 2, 3, 4});
  Host<f32> y({8}, -1.0f);
  interpret(text, x, y, scalarArg(std::int64_t(3)));
  CHECK(y.data == std::vector<f32>{1, 2, 3, 0, 0, 0, 0, 0});
}

TEST_CASE("one program, several threads", "[interp]") {
  Interpreted k(vectorSum);
  REQUIRE(k.program);
  std::vector<std::thread> threads;
  std::array<bool, 4> good{};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      bool all = true;
      for (int round = 0; round < 20; ++round) {
        Host<f32> x({777}, float(t)), y({777});
        std::vector<KernelArg> args{x.arg(), y.arg()};
        k.program->run(args);
        for (float v : y.data)
          all &= v == 2.0f * float(t);
      }
      good[std::size_t(t)] = all;
    });
  for (std::thread &t : threads)
    t.join();
  CHECK(good == std::array<bool, 4>{true, true, true, true});
}

TEST_CASE("what has no meaning is refused with a diagnostic", "[interp]") {
  auto message = [](const std::string &text) {
    Interpreted k(text);
    CHECK_FALSE(k.program);
    return k.messages;
  };
  using Catch::Contains;
  CHECK_THAT(message("func.func @f() { return }"), Contains("tile.kernel"));
  CHECK_THAT(message(kernelText("", "") + "func.func @l() attributes {tile.kernel} { return }"),
             Contains("second kernel"));
  CHECK_THAT(message(kernelText("%a: i32, %b: i32", "%q = arith.divsi %a, %b : i32")),
             Contains("arith.divsi") && Contains("no meaning"));
  CHECK_THAT(message(kernelText("", "tgpu.barrier")), Contains("no meaning"));
  CHECK_THAT(message(kernelText("%x: f32", "%t = tile.splat %x : f32 -> tensor<65536x8192xf32>")),
             Contains("268435456"));
  CHECK_THAT(message(kernelText("%x: f80", "")), Contains("f80"));
}
