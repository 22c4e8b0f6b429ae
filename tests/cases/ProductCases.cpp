// SPDX-License-Identifier: Apache-2.0
/// \file P02, P05, P16b, P16c, P18a, P18c: matrix products and attention over views.
#include "tests/cases/Products.h"

using namespace cases;

namespace {

template <class T, int BM, int BN, int BK>
void everywhere(Run &run, const Tensor<const T, 2> &A, const Tensor<const T, 2> &B, float want) {
  const std::int64_t M = A.dims()[0], N = B.dims()[1];
  Guarded<f32> c(run, M * N);
  run.sweepPipelines(
      {&c},
      [&](const Config &config) { product<T, BM, BN, BK>.with(config)(run.stream(), A, B, c.view(M, N)); },
      [&] { run.same(c.get(), std::vector<f32>(std::size_t(M * N), want), "C"); });
}

template <class T> void oddPitch(Run &run) {
  const std::vector<T> ones(64 * 511, number<T>(1));
  Guarded<T> a(run, ones), b(run, ones);
  everywhere<T, 64, 64, 64>(run, a.view(64, 511), b.view(511, 64), 511);
  everywhere<T, 32, 64, 32>(run, a.view(64, 511), b.view(511, 64), 511);
}
template <class T> void oddBase(Run &run) {
  Guarded<T> a(run, make<T>(64 * 520, [](auto i) { return i % 520 >= 1 && i % 520 <= 512 ? 1 : 1000; })),
      b(run, std::vector<T>(512 * 64, number<T>(1)));
  everywhere<T, 64, 64, 64>(run, Tensor<const T, 2>(a.data() + 1, {64, 512}, {520, 1}), b.view(512, 64), 512);
}

/// One query per head; every score is 0, so that the result is the mean of V over the keys.
constexpr auto attention = kernel("attention_views", [](Tensor<const f16, 3> Q, Tensor<const f16, 3> K,
                                                        Tensor<const f16, 3> V, Tensor<f32, 3> O) {
  auto [h] = grid(Q, {1});
  Tile q = Q.load({h, 0, 0}, {1, 16, 16}).drop(0), o = zeros<f32>({16, 16});
  OnlineSoftmax st(16);
  for (Tile j : range(0, K.dim(1), 16)) {
    Tile s = mma(q, K.load({h, j, 0}, {1, 16, 16}).drop(0).t());
    auto [p, a] = st.update(s);
    o = mma(cast<f16>(p), V.load({h, j, 0}, {1, 16, 16}).drop(0), o * a);
  }
  O.store({h, 0, 0}, st.finish(o));
});

constexpr auto integerProduct =
    kernel("integer_product", [](Tensor<const i8, 2> A, Tensor<const i8, 2> B, Tensor<i32, 2> C) {
      C.store({0, 0}, mma(A.load({0, 0}, {16, 64}), B.load({0, 0}, {64, 16})));
    });
constexpr auto unsignedProduct =
    kernel("unsigned_product", [](Tensor<const u8, 2> A, Tensor<const u8, 2> B, Tensor<i32, 2> C) {
      C.store({0, 0}, mma(A.load({0, 0}, {16, 64}), B.load({0, 0}, {64, 16})));
    });
template <class T, class K> void integerCase(Run &run, const K &k, int a, int b, std::int64_t columns) {
  Guarded<T> A(run, std::vector<T>(std::size_t(columns), T(a))),
      B(run, std::vector<T>(std::size_t(columns), T(b)));
  Guarded<i32> C(run, 1);
  run.sweep(
      {&C},
      [&](const Config &c) { k.with(c)(run.stream(), A.view(1, columns), B.view(columns, 1), C.view(1, 1)); },
      [&] { run.same(C.get(), {i32(columns) * a * b}, fmt::format("{} times {} times {}", columns, a, b)); });
}

template <MmaPolicy policy>
constexpr auto singlePrecision = kernel("single_precision", [](Tensor<const f32, 2> A, Tensor<const f32, 2> B,
                                                               Tensor<f32, 2> C) {
  C.store({0, 0}, mma(A.load({0, 0}, {16, 16}), B.load({0, 0}, {16, 16}), zeros<f32>({16, 16}), policy));
});
constexpr auto defaultPrecision =
    kernel("default_precision", [](Tensor<const f32, 2> A, Tensor<const f32, 2> B, Tensor<f32, 2> C) {
      C.store({0, 0}, mma(A.load({0, 0}, {16, 16}), B.load({0, 0}, {16, 16})));
    });
constexpr auto doublePrecision =
    kernel("double_precision", [](Tensor<const f64, 2> A, Tensor<const f64, 2> B, Tensor<f64, 2> C) {
      C.store({0, 0}, mma(A.load({0, 0}, {16, 16}), B.load({0, 0}, {16, 16})));
    });

constexpr auto twoProducts = kernel("two_products", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B,
                                                       Tensor<const bf16, 2> D, Tensor<f32, 2> C) {
  Tile inner = mma(A.load({0, 0}, {64, 128}), B.load({0, 0}, {128, 64}));
  C.store({0, 0}, mma(cast<bf16>(inner), D.load({0, 0}, {64, 128})));
});

constexpr auto addRows =
    kernel("add_rows", [](Tensor<const f32, 2> x, Tensor<const f32, 2> y, Tensor<f32, 2> z) {
      auto [r] = grid(z, {8});
      z.store({r, 0}, x.load({r, 0}, {8, 64}) * 3.0f + y.load({r, 0}, {8, 64}));
    });
constexpr auto addTransposed =
    kernel("product_of_view", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<f32, 2> C) {
      C.store({0, 0}, mma(A.load({0, 0}, {64, 64}), B.load({0, 0}, {64, 64})));
    });

template <class T, int BK> void innerTile(Run &run, std::int64_t K) {
  const std::vector<T> ones(std::size_t(64 * K), number<T>(1));
  Guarded<T> a(run, ones), b(run, ones);
  everywhere<T, 64, 64, BK>(run, a.view(64, K), b.view(K, 64), float(K));
}

} // namespace

SECTILE_CASE("P02a/bf16") { oddPitch<bf16>(run); }
SECTILE_CASE("P02a/f16") { oddPitch<f16>(run); }
SECTILE_CASE("P02a/f32") { oddPitch<f32>(run); }
SECTILE_CASE("P02b/bf16") { oddBase<bf16>(run); }
SECTILE_CASE("P02b/f16") { oddBase<f16>(run); }
SECTILE_CASE("P05a") {
  Guarded<f16> zero(run, std::vector<f16>(512, f16(0.0f))), v(run, make<f16>(512, [](auto i) { return i; }));
  Guarded<f32> o(run, 2 * 16 * 16);
  // (key, head, d) in memory, (head, key, d) for the kernel.
  const Tensor<const f16, 3> q(zero.data(), {2, 16, 16}), k = q, V(v.data(), {2, 16, 16}, {16, 32, 1});
  run.sweep(
      {&o}, [&](const Config &c) { attention.with(c)(run.stream(), q, k, V, o.view(2, 16, 16)); },
      [&] { run.same(o.get(), make<f32>(512, [](auto i) { return 240 + 16 * (i / 256) + i % 16; }), "O"); });
}
SECTILE_CASE("P05b/elementwise") {
  Guarded<f32> row(run, make<f32>(64, [](auto i) { return i * 0.7f; })),
      full(run, make<f32>(64 * 64, [](auto i) { return float(i % 64) * 0.7f; })),
      y(run, make<f32>(64 * 64, [](auto i) { return 1.0f / float(i + 1); })), a(run, 64 * 64),
      b(run, 64 * 64);
  run.sweep(
      {&a, &b},
      [&](const Config &c) {
        addRows.with(c)(run.stream(), Tensor<const f32, 2>(row.data(), {64, 64}, {0, 1}), y.view(64, 64),
                        a.view(64, 64));
        addRows.with(c)(run.stream(), full.view(64, 64), y.view(64, 64), b.view(64, 64));
      },
      [&] {
        run.same(a.get(), b.get(), "stride 0");
        run.same(a.get()[1], float(0.7f * 3.0f) + 0.5f, "a[1]");
      });
}
SECTILE_CASE("P05b/product") {
  Guarded<bf16> row(run, make<bf16>(64, [](auto i) { return i * 0.7; })),
      full(run, make<bf16>(64 * 64, [](auto i) { return double(i % 64) * 0.7; })),
      y(run, make<bf16>(64 * 64, [](auto i) { return 1.0 / double(i + 1); }));
  Guarded<f32> a(run, 64 * 64), b(run, 64 * 64);
  run.sweep(
      {&a, &b},
      [&](const Config &c) {
        addTransposed.with(c)(run.stream(), Tensor<const bf16, 2>(row.data(), {64, 64}, {0, 1}),
                              y.view(64, 64), a.view(64, 64));
        addTransposed.with(c)(run.stream(), full.view(64, 64), y.view(64, 64), b.view(64, 64));
      },
      [&] {
        run.same(a.get(), b.get(), "stride 0");
        const auto x = row.get(), z = y.get();
        double want = 0;
        for (int k = 0; k < 64; ++k)
          want += double(float(x[k])) * double(float(z[k * 64]));
        run.check(std::abs(a.get()[0] - want) <= 64 * 0x1p-24 * want,
                  fmt::format("C[0]: {}/{}", a.get()[0], want));
      });
}
SECTILE_CASE("P16b/i8") {
  integerCase<i8>(run, integerProduct, 127, -128, 64);
  integerCase<i8>(run, integerProduct, -128, -128, 64);
  integerCase<i8>(run, integerProduct, -128, 127, 33);
}
SECTILE_CASE("P16b/u8") {
  integerCase<u8>(run, unsignedProduct, 255, 255, 64);
  integerCase<u8>(run, unsignedProduct, 255, 1, 17);
}
SECTILE_CASE("P16c") {
  Guarded<f32> a(run, make<f32>(256, [](auto i) { return i == 0 ? 1 + 0x1p-12 : 0; })),
      b(run, make<f32>(256, [](auto i) { return i == 0; })), exact(run, 256), reduced(run, 256),
      byDefault(run, 256);
  run.sweep(
      {&exact, &reduced, &byDefault},
      [&](const Config &c) {
        singlePrecision<MmaPolicy::exact>.with(c)(run.stream(), a.view(16, 16), b.view(16, 16),
                                                  exact.view(16, 16));
        singlePrecision<MmaPolicy::tf32>.with(c)(run.stream(), a.view(16, 16), b.view(16, 16),
                                                 reduced.view(16, 16));
        defaultPrecision.with(c)(run.stream(), a.view(16, 16), b.view(16, 16), byDefault.view(16, 16));
      },
      [&] {
        run.same(exact.get()[0], 1.000244140625f, "exact");
        run.same(byDefault.get()[0], 1.000244140625f, "default");
        const float got = reduced.get()[0]; // the policy allows rounding, it does not ask for it
        run.check(got == 1.0f || got == 1.000244140625f, fmt::format("tf32: {}/1 or 1.000244140625", got));
        std::vector<f32> rest = exact.get();
        rest[0] = 0;
        run.same(rest, std::vector<f32>(256, 0.0f), "rest");
      });
}
SECTILE_CASE("P16c/f64") {
  Guarded<f64> a(run, make<f64>(256, [](auto i) { return i == 0 ? 1 + 0x1p-50 : 0; })),
      b(run, make<f64>(256, [](auto i) { return i == 0; })), y(run, 256);
  run.sweep(
      {&y},
      [&](const Config &c) {
        doublePrecision.with(c)(run.stream(), a.view(16, 16), b.view(16, 16), y.view(16, 16));
      },
      [&] { run.same(y.get(), make<f64>(256, [](auto i) { return i == 0 ? 1 + 0x1p-50 : 0; }), "y"); });
}
SECTILE_CASE("P18a/48") { innerTile<bf16, 48>(run, 96); }
SECTILE_CASE("P18a/80") { innerTile<bf16, 80>(run, 160); }
SECTILE_CASE("P18a/f16") { innerTile<f16, 48>(run, 100); } // K no multiple of the tile
SECTILE_CASE("P18a/e4m3") { innerTile<e4m3, 96>(run, 192); }
SECTILE_CASE("P18c") {
  const std::vector<bf16> ones(64 * 128, bf16(1.0f));
  Guarded<bf16> a(run, ones), b(run, ones), d(run, ones);
  Guarded<f32> c(run, 64 * 128);
  run.sweepPipelines(
      {&c},
      [&](const Config &config) {
        twoProducts.with(config)(run.stream(), a.view(64, 128), b.view(128, 64), d.view(64, 128),
                                 c.view(64, 128));
      },
      [&] { run.same(c.get(), std::vector<f32>(64 * 128, 8192), "C"); });
}
