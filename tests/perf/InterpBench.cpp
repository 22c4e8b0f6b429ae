// SPDX-License-Identifier: Apache-2.0
/// \file Speed of the interpreter on one core: multiply-adds and elementwise results per second, whole
/// kernels with loads and stores. Fails below 500 million multiply-adds or 100 million elementwise results a
/// second.
#include "tests/support/InterpHarness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace sectile;
using namespace sectile::test;

namespace {

/// Best of several runs, in seconds.
double best(const tileir::InterpProgram &program, const std::vector<KernelArg> &args) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  auto end = Clock::now() + std::chrono::milliseconds(300);
  do {
    auto start = Clock::now();
    program.run(args);
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return least;
}

bool report(const std::string &what, double count, double seconds, double floor) {
  double rate = count / seconds / 1e6;
  bool good = rate >= floor;
  fmt::print("{:<36} {:>9.0f} M/s  (floor {:.0f}){}\n", what, rate, floor, good ? "" : "  TOO SLOW");
  return good;
}

template <class T> bool product(const std::string &type, const std::string &accType = "f32") {
  constexpr std::int64_t size = 512;
  std::string t = "!tile.tensor<2, " + type + ">", out = "!tile.tensor<2, " + accType + ">";
  Interpreted k(kernelText("%A: " + t + ", %B: " + t + ", %C: " + out, R"(
    %m, %n = tile.grid %C [128, 128] : )" + out + R"( -> index, index
    %zero = tile.constant 0 : index
    %step = tile.constant 64 : index
    %K = tile.dim %A, 1 : )" + t + R"(
    %init = tile.constant dense<)" + (accType == "i32" ? "0" : "0.0") + R"(> : tensor<128x128x)" +
                                                                           accType + R"(>
    %r = scf.for %k = %zero to %K step %step iter_args(%acc = %init) -> tensor<128x128x)" +
                                                                           accType + R"(> {
      %a = tile.load %A[%m, %k] : )" + t + " -> tensor<128x64x" + type + R"(>
      %b = tile.load %B[%k, %n] : )" + t + " -> tensor<64x128x" + type + R"(>
      %next = tile.mma exact %a, %b, %acc : tensor<128x64x)" + type + ">, tensor<64x128x" +
                                                                           type + ">, tensor<128x128x" +
                                                                           accType + R"(>
      scf.yield %next : tensor<128x128x)" + accType + R"(>
    }
    tile.store %r, %C[%m, %n] : tensor<128x128x)" + accType + ">, " + out));
  if (!k.program) {
    fmt::print("{}", k.messages);
    return false;
  }
  Host<T> a({size, size}, T(1)), b({size, size}, T(1));
  Host<double> c({size, size});
  std::vector<KernelArg> args{a.arg(), b.arg(), c.arg()};
  return report("mma " + type, double(size) * size * size, best(*k.program, args), 500);
}

/// `ops` elementwise ops on a vector, whose rate is counted without the load and the store.
template <class T>
bool elementwise(const std::string &type, const std::string &what, const std::string &op, int ops,
                 double floor) {
  constexpr std::int64_t size = 1 << 20;
  std::string t = "!tile.tensor<1, " + type + ">", tile = "tensor<4096x" + type + ">";
  std::string body = "%i = tile.grid %X [4096] : " + t + " -> index\n%v0 = tile.load %X[%i] : " + t + " -> " +
                     tile + "\n%w = tile.load %Y[%i] : " + t + " -> " + tile + "\n";
  for (int n = 0; n < ops; ++n)
    body += fmt::format("%v{} = {}\n", n + 1,
                        op == "exp" ? fmt::format("tile.unary exp %v{} : {} -> {}", n, tile, tile)
                                    : fmt::format("tile.binary {} %v{}, %w : {}", op, n, tile));
  body += fmt::format("tile.store %v{}, %Y[%i] : {}, {}", ops, tile, t);
  Interpreted k(kernelText("%X: " + t + ", %Y: " + t, body));
  if (!k.program) {
    fmt::print("{}", k.messages);
    return false;
  }
  Host<T> x({size}, T(1)), y({size}, T(1));
  std::vector<KernelArg> args{x.arg(), y.arg()};
  return report(what + " " + type, double(size) * ops, best(*k.program, args), floor);
}

} // namespace

int interpBenchMain() {
  bool good = true;
  good &= product<f32>("f32");
  good &= product<bf16>("bf16");
  good &= product<f16>("f16");
  good &= product<e4m3>("f8E4M3FN");
  good &= product<f64>("f64", "f64");
  good &= product<i8>("i8", "i32");
  for (const char *op : {"add", "mul", "max"}) {
    good &= elementwise<f32>("f32", op, op, 4, 100);
    good &= elementwise<bf16>("bf16", op, op, 4, 100);
    good &= elementwise<f16>("f16", op, op, 4, 100);
  }
  good &= elementwise<i32>("i32", "add", "add", 4, 100);
  good &= elementwise<f32>("f32", "exp", "exp", 1, 0);
  return good ? 0 : 1;
}
