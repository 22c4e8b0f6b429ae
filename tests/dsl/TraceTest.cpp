// SPDX-License-Identifier: Apache-2.0
// What kernels become: properties of the traced module, and what it computes on the interpreter.
#include "dsl/Trace.h"
#include "ir/Interp.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>
#include <thread>

using namespace sectile;

namespace {

struct Traced {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Config config;
  std::string text;

  template <class Op> std::vector<Op> all() {
    std::vector<Op> ops;
    module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
};

template <class K, class... A> Traced traceWith(Config config, const K &kernel, A &&...args) {
  Traced t;
  t.context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  t.config = std::move(config);
  auto packed = kernel.pack(std::forward<A>(args)...);
  t.module = detail::trace(*t.context, kernel.desc(), packed, t.config);
  CHECK(mlir::succeeded(mlir::verify(*t.module)));
  llvm::raw_string_ostream stream(t.text);
  t.module->print(stream);
  return t;
}
template <class K, class... A> Traced traced(const K &kernel, A &&...args) {
  return traceWith(Config(), kernel, std::forward<A>(args)...);
}

/// Runs the kernel on host memory.
template <class K, class... A> void interpret(const K &kernel, A &&...args) {
  Traced t = traced(kernel, std::forward<A>(args)...);
  auto program = tileir::InterpProgram::build(*t.module);
  REQUIRE(program);
  auto packed = kernel.pack(std::forward<A>(args)...);
  std::vector<KernelArg> runtime;
  for (std::size_t i = 0; i < packed.size(); ++i)
    if (kernel.desc().params[i].kind != detail::ParamDesc::Kind::constant)
      runtime.push_back(packed[i]);
  program->run(runtime);
}

template <class T> Tensor<T, 1> view(std::vector<T> &v) {
  return Tensor<T, 1>(v.data(), {static_cast<std::int64_t>(v.size())});
}

//===--------------------------------------------------------------------===//
// The kernels of the language's description
//===--------------------------------------------------------------------===//

constexpr auto matmul =
    kernel("matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
      const int BM = cfg.pick("BM", {128, 64, 256}), BN = cfg.pick("BN", {256, 128}),
                BK = cfg.pick("BK", {64, 128});
      auto [m, n] = grid(C, {BM, BN});
      Tile acc = zeros<f32>({BM, BN});
      for (Tile k : range(0, A.dim(1), BK))
        acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
      C.store({m, n}, cast<bf16>(acc));
    });

constexpr auto softmax = kernel("softmax", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC})), e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});

constexpr auto plainScore = [](Tile s, At) { return s; };
constexpr auto causal = [](Tile, At at) { return at.k <= at.q; };

template <auto score = plainScore, auto mask = causal>
constexpr auto
    attention = kernel<score, mask>("attention", [](Tensor<const bf16, 4> Q, Tensor<const bf16, 4> K,
                                                    Tensor<const bf16, 4> V, Tensor<bf16, 4> O,
                                                    Tensor<float, 3> Lse, Scalar<float> scale, Config &cfg) {
      const int BM = cfg.pick("BM", {16, 32}), BN = cfg.pick("BN", {16, 32});
      const int D = cfg.cover("D", Q, 3), DV = cfg.cover("DV", V, 3);
      auto [b, h, i] = grid(Q, {1, 1, BM});
      Tile hk = h / (Q.dim(1) / K.dim(1));
      Tile q = Q.load({b, h, i, 0}, {1, 1, BM, D}).drop(0, 1), o = zeros<f32>({BM, DV});
      OnlineSoftmax st(BM);
      for (Tile j : range(0, K.dim(2), BN)) {
        At at{b, h, i + iota(BM, 1), j + iota(1, BN)};
        Tile s = mma(q, K.load({b, hk, j, 0}, {1, 1, BN, D}).drop(0, 1).t()) * scale;
        auto [p, a] = st.update(keep(apply<mask>(s, at), apply<score>(s, at)));
        o = mma(cast<bf16>(p), V.load({b, hk, j, 0}, {1, 1, BN, DV}).drop(0, 1), o * a);
      }
      O.store({b, h, i, 0}, cast<bf16>(st.finish(o)));
      Lse.store({b, h, i}, st.lse().drop(1));
    });
constexpr auto alibi = attention<[](Tile s, At a, Tensor<const float, 1> slope) {
  return s + slope.at(a.h) * cast<f32>(a.k - a.q);
}>;

} // namespace

TEST_CASE("matmul carries its accumulator alone") {
  std::vector<bf16> a(4), b(4), c(4);
  Tensor<bf16, 2> A(a.data(), {2, 2}), B(b.data(), {2, 2}), C(c.data(), {2, 2});
  Traced t = traced(matmul, A, B, C);
  auto loops = t.all<mlir::scf::ForOp>();
  REQUIRE(loops.size() == 1);
  CHECK(loops[0].getNumRegionIterArgs() == 1);
  CHECK(t.all<tileir::MmaOp>().size() == 1);
  CHECK(t.config.str() == "BK=64 BM=128 BN=256");
  CHECK(t.config.values().at("BM").choices == std::vector<int>{128, 64, 256});
  auto function = t.all<mlir::func::FuncOp>().at(0);
  CHECK(function->hasAttr(tileir::kernelAttr));
  CHECK(function.getArgAttr(0, tileir::readOnlyAttr));
  CHECK(function.getArgAttr(1, tileir::readOnlyAttr));
  CHECK_FALSE(function.getArgAttr(2, tileir::readOnlyAttr));
}

TEST_CASE("A value set by hand replaces the default") {
  std::vector<bf16> a(4), b(4), c(4);
  Tensor<bf16, 2> A(a.data(), {2, 2}), B(b.data(), {2, 2}), C(c.data(), {2, 2});
  Traced t = traceWith(Config().set("BM", 64), matmul, A, B, C);
  CHECK(t.config.str() == "BK=64 BM=64 BN=256");
  CHECK(t.text.find("[64, 256]") != std::string::npos);
  CHECK(traced(matmul, A, B, C).config.hash() != t.config.hash());
  CHECK_FALSE(traced(matmul, A, B, C).config == t.config);
}

TEST_CASE("cover takes buckets: powers of two, from 2048 up with the halves, from 8192 up the quarters between") {
  for (auto [length, bucket] : {std::pair(0, 16), {1, 16}, {16, 16}, {17, 32}, {257, 512}, {512, 512}, {513, 1024},
                                {1000, 1024}, {1024, 1024}, {1025, 2048}, {2048, 2048}, {2049, 3072}, {3072, 3072}, {3073, 4096},
                                {4096, 4096}, {4097, 6144}, {8192, 8192}, {8193, 10240}, {12288, 12288}, {12352, 14336}, {50264, 57344},
                                {128256, 131072}}) {
    CHECK(detail::coverBucket(length) == bucket);
    // The strides do not matter where there is one row.
    std::vector<bf16> x(length + 1);
    Tensor<bf16, 2> X(x.data(), {1, length});
    Traced t = traced(softmax, X, X);
    CHECK(t.config.get("BC") == bucket);
    CHECK(t.config.values().at("BC").coverArg == 0);
    CHECK(t.config.values().at("BC").coverAxis == 1);
  }
  const std::int64_t most = std::int64_t(1) << 30;
  CHECK(detail::coverBucket(most - 1) == most);
  CHECK(detail::coverBucket(most + 1) == most);
  CHECK(detail::coverBucket(std::int64_t(1) << 40) == most);
  // Every bucket holds its lengths and is the bucket of itself; none wastes more than a third from 2048 up, a fifth from 8192 up.
  for (std::int64_t length = 1; length < 100000; length += 7) {
    const std::int64_t bucket = detail::coverBucket(length);
    REQUIRE(bucket >= length);
    REQUIRE(detail::coverBucket(bucket) == bucket);
    REQUIRE((length <= 2048 || (bucket - length) * (length > 8192 ? 5 : 3) < bucket));
  }
}

TEST_CASE("cover leaves room where rows start at different places of a vector") {
  std::vector<bf16> x(3 * 2000);
  auto bucket = [&](std::int64_t length, std::int64_t stride) {
    Tensor<bf16, 2> X(x.data(), {3, length}, {stride, 1});
    return *traced(softmax, X, X).config.get("BC");
  };
  CHECK(bucket(1024, 1024) == 1024);
  CHECK(bucket(1024, 1025) == 2048); // up to 7 elements more
  CHECK(bucket(1017, 1017) == 1024);
  CHECK(bucket(1018, 1018) == 2048);
  CHECK(bucket(1018, 1024) == 1024);
  CHECK(bucket(16, 17) == 32);
}

TEST_CASE("A variant's parameters are appended to the kernel's") {
  CHECK(attention<>.desc().params.size() == 6);
  REQUIRE(alibi.desc().params.size() == 7);
  CHECK(alibi.desc().params[6].rank == 1);
  CHECK(alibi.desc().params[6].readOnly);
  std::vector<bf16> x(1 * 2 * 3 * 4);
  std::vector<float> l(6), slope(2);
  Tensor<bf16, 4> X(x.data(), {1, 2, 3, 4});
  Traced t = traced(alibi, X, X, X, X, Tensor<float, 3>(l.data(), {1, 2, 3}), 0.5f, view(slope));
  CHECK(t.all<tileir::GatherOp>().size() == 1);
  CHECK(t.all<mlir::func::FuncOp>().at(0).getNumArguments() == 7);
}

TEST_CASE("Attention with fewer keys than queries: rows without a key give 0 and -inf") {
  // Causal, aligned to the end: query r sees keys up to r - 2.
  constexpr auto shifted = attention<plainScore, [](Tile, At at) { return at.k <= at.q - 2; }>;
  std::vector<bf16> q(5, bf16(0.f)), k(3, bf16(0.f)), v{bf16(1.f), bf16(2.f), bf16(3.f)}, o(5);
  std::vector<float> lse(5);
  interpret(shifted, Tensor<bf16, 4>(q.data(), {1, 1, 5, 1}), Tensor<bf16, 4>(k.data(), {1, 1, 3, 1}),
            Tensor<bf16, 4>(v.data(), {1, 1, 3, 1}), Tensor<bf16, 4>(o.data(), {1, 1, 5, 1}),
            Tensor<float, 3>(lse.data(), {1, 1, 5}), 1.0f);
  const float wantO[] = {0, 0, 1, 1.5, 2};
  const double wantLse[] = {-INFINITY, -INFINITY, 0, std::log(2.0), std::log(3.0)};
  for (int i = 0; i < 5; ++i) {
    CHECK(float(o[i]) == wantO[i]);
    if (std::isinf(wantLse[i]))
      CHECK(lse[i] == -INFINITY);
    else
      CHECK(lse[i] == Approx(wantLse[i]).margin(1e-6));
  }
}

//===--------------------------------------------------------------------===//
// Cells
//===--------------------------------------------------------------------===//

TEST_CASE("Swaps in a loop, by hand and by std::swap") {
  constexpr auto fibonacci = kernel("fibonacci", [](Tensor<i32, 1> X, Scalar<i64> trips) {
    Tile a = scalar<i32>(0), b = scalar<i32>(1);
    for (Tile i : range(0, cast<Index>(trips))) {
      Tile next = a + b;
      a = b;
      b = next;
    }
    X.store({0}, a);
    X.store({1}, b);
  });
  std::vector<i32> x(2);
  interpret(fibonacci, view(x), 10);
  CHECK(x == std::vector<i32>{55, 89});
  interpret(fibonacci, view(x), 0);
  CHECK(x == std::vector<i32>{0, 1});

  constexpr auto swaps = kernel("swaps", [](Tensor<i32, 1> X, Scalar<i64> trips) {
    Tile a = scalar<i32>(3), b = scalar<i32>(4);
    for (Tile i : range(0, cast<Index>(trips)))
      std::swap(a, b);
    X.store({0}, a);
    X.store({1}, b);
  });
  interpret(swaps, view(x), 3);
  CHECK(x == std::vector<i32>{4, 3});
  interpret(swaps, view(x), 4);
  CHECK(x == std::vector<i32>{3, 4});
}

TEST_CASE("Three carried values, one of them unchanged") {
  constexpr auto carried = kernel("carried", [](Tensor<f32, 1> X, Scalar<i64> trips) {
    Tile num = scalar<f32>(1), den = scalar<f32>(12), out = scalar<f32>(12);
    for (Tile i : range(0, cast<Index>(trips)))
      out = num / den;
    X.store({0}, out);
  });
  std::vector<float> x(1);
  Traced t = traced(carried, view(x), 1);
  CHECK(t.all<mlir::scf::ForOp>().at(0).getNumRegionIterArgs() == 1);
  for (int trips = 0; trips < 4; ++trips) {
    interpret(carried, view(x), trips);
    CHECK(x[0] == (trips ? 1.0f / 12.0f : 12.0f));
  }
}

TEST_CASE("A copy is a variable of its own") {
  constexpr auto copies = kernel("copies", [](Tensor<i32, 1> X) {
    Tile a = scalar<i32>(1), b = a, c = std::move(a);
    b = b + 10;
    c = c + 100;
    auto add = [](Tile byValue) {
      byValue = byValue + 1000;
      return byValue;
    };
    Tile d = add(a);
    X.store({0}, a);
    X.store({1}, b);
    X.store({2}, c);
    X.store({3}, d);
  });
  std::vector<i32> x(4);
  interpret(copies, view(x));
  CHECK(x == std::vector<i32>{1, 11, 101, 1001});
}

TEST_CASE("Nested branches inside a loop") {
  constexpr auto branches = kernel("branches", [](Tensor<i32, 1> X, Scalar<i32> n) {
    Tile even = scalar<i32>(0), odd = scalar<i32>(0), last;
    last = scalar<i32>(-1);
    for (Tile i : range(0, 10)) {
      Tile k = cast<i32>(i);
      when(k < n, [&] {
        when((k & 1) == 0, [&] { even += k; }).otherwise([&] {
          odd += k;
          last = k;
        });
      });
    }
    X.store({0}, even);
    X.store({1}, odd);
    X.store({2}, last);
  });
  std::vector<i32> x(3);
  interpret(branches, view(x), 7);
  CHECK(x == std::vector<i32>{0 + 2 + 4 + 6, 1 + 3 + 5, 5});
  interpret(branches, view(x), 0);
  CHECK(x == std::vector<i32>{0, 0, -1});
}

TEST_CASE("A Tile that both branches set needs no value before") {
  constexpr auto both = kernel("both", [](Tensor<i32, 1> X, Scalar<i32> n) {
    Tile z;
    when(n > 0, [&] { z = scalar<i32>(1); }).otherwise([&] { z = scalar<i32>(2); });
    X.store({0}, z);
  });
  std::vector<i32> x(1);
  interpret(both, view(x), 5);
  CHECK(x[0] == 1);
  interpret(both, view(x), -5);
  CHECK(x[0] == 2);
}

TEST_CASE("loopWhile: Collatz from 27, and a value set by the condition alone") {
  constexpr auto collatz = kernel("collatz", [](Tensor<i32, 1> X, Scalar<i32> start) {
    Tile x = start, count = scalar<i32>(0), seen;
    loopWhile(
        [&] {
          seen = x;
          return x != 1;
        },
        [&] {
          when((x & 1) == 0, [&] { x = x / 2; }).otherwise([&] { x = 3 * x + 1; });
          count += 1;
        });
    X.store({0}, count);
    X.store({1}, seen);
    X.store({2}, x);
  });
  std::vector<i32> x(3);
  interpret(collatz, view(x), 27);
  CHECK(x == std::vector<i32>{111, 1, 1});
  interpret(collatz, view(x), 1);
  CHECK(x == std::vector<i32>{0, 1, 1});
}

TEST_CASE("Ranges count down, and by a step known at run time") {
  constexpr auto steps =
      kernel("steps", [](Tensor<i32, 1> X, Scalar<i64> lo, Scalar<i64> hi, Scalar<i64> step) {
        Tile n = scalar<i32>(0), last = scalar<i64>(-99);
        for (Tile i : range(cast<Index>(lo), cast<Index>(hi), cast<Index>(step))) {
          n += 1;
          last = cast<i64>(i);
        }
        X.store({0}, n);
        X.store({1}, cast<i32>(last));
      });
  constexpr auto down = kernel("down", [](Tensor<i32, 1> X, Scalar<i64> from) {
    Tile n = scalar<i32>(0), last = scalar<i32>(-99);
    for (Tile i : range(cast<Index>(from), -1, -2)) {
      n += 1;
      last = cast<i32>(i);
    }
    X.store({0}, n);
    X.store({1}, last);
  });
  std::vector<i32> x(2);
  for (int lo : {-3, 0, 5})
    for (int hi : {-7, 0, 5, 6})
      for (int step : {-3, -1, 0, 1, 2, 7}) {
        int n = 0, last = -99;
        for (int i = lo; step > 0 ? i < hi : step < 0 ? i > hi : false; i += step)
          ++n, last = i;
        interpret(steps, view(x), lo, hi, step);
        CAPTURE(lo, hi, step);
        CHECK(x == std::vector<i32>{n, last});
      }
  interpret(down, view(x), 7);
  CHECK(x == std::vector<i32>{4, 1});
  interpret(down, view(x), -1);
  CHECK(x == std::vector<i32>{0, -99});
}

TEST_CASE("A tensor variable changes in a loop") {
  constexpr auto replaced =
      kernel("replaced", [](Tensor<const i32, 1> A, Tensor<const i32, 1> B, Tensor<i32, 1> O) {
        Tensor<const i32, 1> source = A;
        Tile j = scalar<Index>(0);
        for (Tile i : range(0, 12, 3)) {
          O.store({j}, source.load({i}, {1}));
          source = B;
          j += 1;
        }
      });
  std::vector<i32> a(12), b(12), o(4);
  std::iota(a.begin(), a.end(), 0);
  std::iota(b.begin(), b.end(), 100);
  Traced t = traced(replaced, view(a), view(b), view(o));
  CHECK(t.all<mlir::scf::ForOp>().at(0).getNumRegionIterArgs() == 2);
  interpret(replaced, view(a), view(b), view(o));
  CHECK(o == std::vector<i32>{0, 103, 106, 109});
}

TEST_CASE("Host control flow unrolls and selects while tracing") {
  constexpr auto unrolled = kernel("unrolled", [](Tensor<i32, 1> X, Const<i32> times, Const<bool> negate) {
    Tile sum = scalar<i32>(0);
    for (int i = 0; i < times; ++i) {
      if (i == 1)
        continue;
      sum += i;
    }
    if (negate)
      sum = -sum;
    X.store({0}, sum);
  });
  std::vector<i32> x(1);
  Traced t = traced(unrolled, view(x), 4, true);
  CHECK(t.all<mlir::scf::ForOp>().empty());
  CHECK(t.all<mlir::func::FuncOp>().at(0).getNumArguments() == 1);
  interpret(unrolled, view(x), 4, true);
  CHECK(x[0] == -5);
  interpret(unrolled, view(x), 4, false);
  CHECK(x[0] == 5);
}

//===--------------------------------------------------------------------===//
// Canonical text
//===--------------------------------------------------------------------===//

TEST_CASE("Two traces, also in other threads, give one text") {
  std::vector<bf16> a(4), b(4), c(4);
  Tensor<bf16, 2> A(a.data(), {2, 2}), B(b.data(), {2, 2}), C(c.data(), {2, 2});
  const std::string text = traced(matmul, A, B, C).text;
  std::vector<std::string> others(4);
  std::vector<std::thread> threads;
  for (std::string &other : others)
    threads.emplace_back([&] {
      mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
      Config config;
      auto packed = matmul.pack(A, B, C);
      auto module = detail::trace(context, matmul.desc(), packed, config);
      llvm::raw_string_ostream stream(other);
      module->print(stream);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &other : others)
    CHECK(other == text);
}

TEST_CASE("The order in which operands are evaluated leaves no trace") {
  // A compiler may evaluate either operand of `left() + right()` first: both orders, spelled out.
  constexpr auto leftFirst = kernel("order", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y) {
    Tile unused = X.load({64}, {16});
    Tile a = exp(X.load({0}, {16})), b = log(X.load({16}, {16}));
    Tile late = X.load({32}, {16});
    for (Tile i : range(0, 4)) {
      Tile c = a * 2.0f, d = b * 3.0f;
      a = c + d;
    }
    Y.store({0}, a + b);
    Y.store({16}, late);
  });
  constexpr auto rightFirst = kernel("order", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y) {
    Tile late = X.load({32}, {16});
    Tile x = X.load({16}, {16});
    Tile b = log(x), a = exp(X.load({0}, {16}));
    for (Tile i : range(0, 4)) {
      Tile d = b * 3.0f, c = a * 2.0f;
      a = c + d;
    }
    Tile sum = a + b;
    Y.store({0}, sum);
    Y.store({16}, late);
  });
  std::vector<float> x(128);
  Traced t = traced(leftFirst, view(x), view(x));
  CHECK(t.text == traced(rightFirst, view(x), view(x)).text);
  CHECK(t.all<tileir::LoadOp>().size() == 3);
}

TEST_CASE("A load stays between the stores it was written between") {
  constexpr auto inPlace = kernel("in_place", [](Tensor<f32, 1> X, Tensor<f32, 1> Y) {
    Tile before = X.load({0}, {1});
    Y.store({0}, before + 1.0f);
    Tile after = X.load({0}, {1});
    Y.store({1}, before + after);
  });
  std::vector<float> x{1, 0};
  interpret(inPlace, view(x), view(x));
  CHECK(x == std::vector<float>{2, 3});
}

//===--------------------------------------------------------------------===//
// Positions, numbers, axes
//===--------------------------------------------------------------------===//

TEST_CASE("Ops carry the user's line, also when a library header makes them") {
  int line = 0;
  constexpr auto positions = kernel("positions", [](Tensor<f32, 1> X) {
    Tile a = X.load({0}, {16}), b = X.load({16}, {16});
    std::swap(a, b);
    X.store({0}, a * b);
  });
  line = __LINE__ - 2;
  std::vector<float> x(32);
  Traced t = traced(positions, view(x));
  auto store = t.all<tileir::StoreOp>().at(0);
  auto loc = llvm::cast<mlir::FileLineColLoc>(store.getLoc());
  CHECK(loc.getLine() == unsigned(line));
  CHECK(loc.getFilename().getValue().ends_with("TraceTest.cpp"));
}

TEST_CASE("Host numbers take the tile's dtype, rounded once") {
  constexpr auto numbers =
      kernel("numbers", [](Tensor<bf16, 1> B, Tensor<e4m3, 1> E, Tensor<u64, 1> U, Tensor<bool, 1> T) {
        Tile b = full<bf16>({2}, 1.00390625 + 1e-9);
        B.store({0}, b);
        E.store({0}, full<e4m3>({2}, 1e6));
        Tile u = full<u64>({2}, 18446744073709551615ull);
        U.store({0}, u);
        T.store({0}, (u == 18446744073709551615ull) & true);
      });
  std::vector<bf16> b(2);
  std::vector<e4m3> e(2);
  std::vector<u64> u(2);
  bool t[2] = {false, false};
  interpret(numbers, view(b), view(e), view(u), Tensor<bool, 1>(t, {2}));
  CHECK(float(b[0]) == 1.0078125f);
  CHECK(float(e[0]) == 448.0f);
  CHECK(u[1] == 18446744073709551615ull);
  CHECK(t[1]);
}

TEST_CASE("Reductions and elementwise forms of max are told apart") {
  constexpr auto maxima = kernel("maxima", [](Tensor<f32, 2> X, Tensor<f32, 1> Y) {
    Tile x = X.load({0, 0}, {2, 4});
    Y.store({0}, max(max(x, 1), 0).drop(0, 1));
    Y.store({1}, max(max(max(x, 2.5), 1), 0).drop(0, 1));
    Y.store({2}, min(min(5, x), 1).drop(1));
  });
  std::vector<float> x{0, 1, 2, -3, 1, 1, 1, 1}, y(4);
  interpret(maxima, Tensor<float, 2>(x.data(), {2, 4}), view(y));
  CHECK(y == std::vector<float>{2, 2.5, -3, 1});
}

TEST_CASE("A carried sum over whole rows needs no fill: each row is inside the tensor") {
  constexpr auto rows = kernel("rows", [](Tensor<const f32, 2> X, Tensor<f32, 1> Y) {
    Tile sum = zeros<f32>({16});
    for (Tile r : range(0, X.dim(0)))
      sum += X.load({r, 0}, {1, 16}).drop(0);
    Y.store({0}, sum);
  });
  std::vector<float> x(3 * 5, 2.0f), y(5);
  interpret(rows, Tensor<float, 2>(x.data(), {3, 5}), view(y));
  CHECK(y == std::vector<float>(5, 6.0f));
}

TEST_CASE("A carried sum over chunks with fill keeps what the tail lacks") {
  constexpr auto chunks = kernel("chunks", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y) {
    Tile sum0 = zeros<f32>({16});
    for (Tile k : range(0, X.dim(0), 16))
      sum0 += X.load({k}, {16}).fill(0);
    Y.store({0}, sum(sum0, 0));
  });
  std::vector<float> x(37), y(1);
  std::iota(x.begin(), x.end(), 0.0f);
  interpret(chunks, view(x), view(y));
  CHECK(y[0] == 36 * 37 / 2);
}

TEST_CASE("A slice has tails of its own") {
  constexpr auto ragged =
      kernel("ragged", [](Tensor<const f32, 1> X, Tensor<const i32, 1> Ends, Tensor<f32, 1> Y) {
        auto [r] = grid(Y, {1});
        Tile lo = cast<Index>(Ends.at(r)), hi = cast<Index>(Ends.at(r + 1));
        Tensor<const f32, 1> piece = X.slice(0, lo, hi);
        Y.store({r}, sum(piece.load({0}, {16}), 0));
      });
  std::vector<float> x{1, 2, 4, 8, 16, 32}, y(3);
  std::vector<i32> ends{0, 2, 2, 6};
  interpret(ragged, view(x), view(ends), view(y));
  CHECK(y == std::vector<float>{3, 0, 60});
}

TEST_CASE("A branch may capture tensors by value") {
  constexpr auto byValue = kernel("by_value", [](Tensor<i32, 1> X, Scalar<i32> n) {
    when(n > 0, [=] { X.store({0}, full<i32>({2}, 5)); });
  });
  std::vector<i32> x(2);
  interpret(byValue, view(x), 1);
  CHECK(x == std::vector<i32>{5, 5});
}

TEST_CASE("A Config used again keeps what was set by hand alone") {
  constexpr auto other = kernel("other", [](Tensor<bf16, 2> X, Config &cfg) {
    X.store({0, 0}, zeros<bf16>({cfg.pick("BM", {16, 64}), 16}));
  });
  std::vector<bf16> a(4);
  Tensor<bf16, 2> A(a.data(), {2, 2});
  Config first = traceWith(Config().set("BM", 64), matmul, A, A, A).config;
  CHECK(traceWith(first, other, A).config.str() == "BM=64");
}

TEST_CASE("A trace inside a trace is refused") {
  static constexpr auto inner = kernel("inner", [](Tensor<f32, 1> X) { X.store({0}, zeros<f32>({4})); });
  constexpr auto outer = kernel("outer", [](Tensor<f32, 1> X) {
    std::vector<float> host(4);
    traced(inner, view(host));
  });
  std::vector<float> x(4);
  CHECK_THROWS_WITH(traced(outer, view(x)), Catch::Contains("inner is traced inside the trace of kernel outer"));
  CHECK_FALSE(detail::tracing());
}

TEST_CASE("A failed trace leaves nothing behind") {
  constexpr auto broken = kernel("broken", [](Tensor<f32, 1> X) {
    Tile sum = zeros<f32>({4});
    for (Tile i : range(0, 4))
      when(i > 2, [&] { sum = sum + X.load({i}, {8}); });
  });
  constexpr auto swallowed = kernel("swallowed", [](Tensor<f32, 1> X) {
    try {
      X.store({0}, zeros<f32>({4}) + zeros<f32>({8}));
    } catch (const UserError &) {
    }
  });
  std::vector<float> x(4);
  CHECK_THROWS_AS(traced(broken, view(x)), UserError);
  CHECK_FALSE(detail::tracing());
  CHECK_THROWS_AS(traced(swallowed, view(x)), UserError);
  CHECK_FALSE(detail::tracing());
  std::vector<i32> y(2);
  constexpr auto good = kernel("good", [](Tensor<i32, 1> X) { X.store({0}, full<i32>({2}, 7)); });
  interpret(good, view(y));
  CHECK(y == std::vector<i32>{7, 7});
}
