// SPDX-License-Identifier: Apache-2.0
/// \file P17: values carried round loops.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

template <class T>
constexpr auto carriedScalars = kernel("carried_scalars", [](Scalar<T> d, Scalar<i32> trips, Tensor<T, 1> y) {
  Tile num = scalar<T>(1), den = d, out = d;
  for (Tile i : range(0, cast<Index>(trips))) {
    out = num / den;
    num = num;
    den = den;
  }
  y.store({0}, full<T>({1}, out));
  y.store({1}, full<T>({1}, num));
  y.store({2}, full<T>({1}, den));
});
template <class T>
constexpr auto carriedTiles = kernel("carried_tiles", [](Scalar<T> d, Scalar<i32> trips, Tensor<T, 1> y) {
  Tile num = full<T>({64}, 1), den = full<T>({64}, d), out = den;
  for (Tile i : range(0, cast<Index>(trips)))
    out = num / den;
  y.store({0}, out);
});

template <class T> void threeCarried(Run &run) {
  Guarded<T> y(run, 3), z(run, 64);
  for (int trips = 0; trips <= 3; ++trips)
    run.sweep(
        {&y, &z},
        [&](const Config &c) {
          carriedScalars<T>.with(c)(run.stream(), T(12), trips, y.view(3));
          carriedTiles<T>.with(c)(run.stream(), T(12), trips, z.view(64));
        },
        [&] {
          const T out = trips == 0 ? T(12) : T(1) / T(12);
          run.same(y.get(), {out, T(1), T(12)}, fmt::format("{} trips: out, num, den", trips));
          run.same(z.get(), std::vector<T>(64, out), fmt::format("{} trips: tile", trips));
        },
        run.isGpu() ? 20 : 3);
}

template <class T>
constexpr auto swapped = kernel("swapped", [](Scalar<i32> trips, Tensor<T, 2> y) {
  Tile a = zeros<T>({32}), b = full<T>({32}, 1);
  for (Tile i : range(0, cast<Index>(trips))) {
    Tile next = a + b;
    a = b;
    b = next;
  }
  y.store({0, 0}, a);
  y.store({1, 0}, b);
});
/// std::swap of two variables: three copies.
constexpr auto stdSwapped = kernel("std_swapped", [](Scalar<i32> trips, Tensor<i32, 2> y) {
  Tile a = zeros<i32>({32}), b = full<i32>({32}, 1);
  for (Tile i : range(0, cast<Index>(trips))) {
    std::swap(a, b);
    b = a + b;
  }
  y.store({0, 0}, a);
  y.store({1, 0}, b);
});

template <class T> void fibonacci(Run &run) {
  Guarded<T> y(run, 64);
  run.sweep(
      {&y}, [&](const Config &c) { swapped<T>.with(c)(run.stream(), 10, y.view(2, 32)); },
      [&] { run.same(y.get(), make<T>(64, [](auto i) { return i < 32 ? 55 : 89; }), "a, b"); });
}

/// The source and its stride are replaced in the first trip.
constexpr auto replaced =
    kernel("replaced", [](Tensor<const i32, 1> a, Tensor<const i32, 1> b, Scalar<i32> strideA,
                          Scalar<i32> strideB, Tensor<i32, 1> out) {
      Tile fromB = scalar<bool>(false), stride = strideA;
      for (Tile i : range(0, 12, 3)) {
        Tile at = reshape(cast<Index>(cast<i32>(i) * stride), {1});
        out.store({i}, select(fromB, b.at(at), a.at(at)));
        fromB = scalar<bool>(true);
        stride = strideB;
      }
    });

/// The view itself is the variable.
constexpr auto replacedView =
    kernel("replaced_view", [](Tensor<const i32, 1> a, Tensor<const i32, 1> b, Tensor<i32, 1> out) {
      Tensor<const i32, 1> source = a;
      for (Tile i : range(0, 12, 3)) {
        out.store({i}, source.load({i}, {1}));
        source = b;
      }
    });

template <class T>
constexpr auto collatz = kernel("collatz", [](Tensor<const T, 1> from, Tensor<T, 1> y) {
  auto [p] = grid(from, {1});
  Tile n = reshape(from.load({p}, {1}), {1}).drop(0), count = scalar<T>(0);
  loopWhile([&] { return n > 1; },
            [&] {
              when(n % 2 == 0, [&] { n = n / 2; }).otherwise([&] { n = 3 * n + 1; });
              count += 1;
            });
  y.store({p}, full<T>({1}, count));
});

template <class T> void countSteps(Run &run) {
  Guarded<T> x(run, std::vector<T>{27, 1, 2, 3, 97}), y(run, 5);
  run.sweep(
      {&y}, [&](const Config &c) { collatz<T>.with(c)(run.stream(), x.view(5), y.view(5)); },
      [&] {
        run.same(y.get(), {111, 0, 1, 7, 118}, "steps");
      });
}

} // namespace

SECTILE_CASE("P17a/f32") { threeCarried<f32>(run); }
SECTILE_CASE("P17a/f64") { threeCarried<f64>(run); }
SECTILE_CASE("P17b/i32") { fibonacci<i32>(run); }
SECTILE_CASE("P17b/f16") { fibonacci<f16>(run); }
SECTILE_CASE("P17b/u8") { fibonacci<u8>(run); }
SECTILE_CASE("P17b/swap") {
  Guarded<i32> y(run, 64);
  run.sweep(
      {&y}, [&](const Config &c) { stdSwapped.with(c)(run.stream(), 10, y.view(2, 32)); },
      [&] { run.same(y.get(), make<i32>(64, [](auto i) { return i < 32 ? 55 : 89; }), "a, b"); });
}
SECTILE_CASE("P17c") {
  Guarded<i32> a(run, make<i32>(32, [](auto i) { return i; })),
      b(run, make<i32>(32, [](auto i) { return 100 + i; })), y(run, 12);
  for (int stride : {1, 2})
    run.sweep(
        {&y},
        [&](const Config &c) {
          replaced.with(c)(run.stream(), a.view(32), b.view(32), 1, stride, y.view(12));
        },
        [&] {
          const auto got = y.get();
          run.same({got[0], got[3], got[6], got[9]},
                   std::vector<i32>{0, 100 + 3 * stride, 100 + 6 * stride, 100 + 9 * stride}, "out");
        });
}
SECTILE_CASE("P17c/view") {
  Guarded<i32> a(run, make<i32>(16, [](auto i) { return i; })),
      b(run, make<i32>(16, [](auto i) { return 100 + i; })), y(run, 12);
  run.sweep(
      {&y}, [&](const Config &c) { replacedView.with(c)(run.stream(), a.view(16), b.view(16), y.view(12)); },
      [&] {
        const auto got = y.get();
        run.same({got[0], got[3], got[6], got[9]}, std::vector<i32>{0, 103, 106, 109}, "out");
      });
}
SECTILE_CASE("P17d/i32") { countSteps<i32>(run); }
SECTILE_CASE("P17d/i64") { countSteps<i64>(run); }
SECTILE_CASE("P17d/u32") { countSteps<u32>(run); }
