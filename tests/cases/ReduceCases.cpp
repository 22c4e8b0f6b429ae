// SPDX-License-Identifier: Apache-2.0
/// \file P09, P11, P12, P13: padding, NaN, positions and truth values in reductions.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

template <class T>
constexpr auto countZeros = kernel("count_zeros", [](Tensor<const T, 1> x, Tensor<i32, 1> y) {
  y.store({0}, sum(cast<i32>(x.load({0}, {1024}) == 0), 0));
});

template <class T> void countZeroValues(Run &run) {
  Guarded<T> x(run, make<T>(1000, [](auto i) { return i % 4; }));
  Guarded<i32> y(run, 1);
  run.sweep(
      {&y}, [&](const Config &c) { countZeros<T>.with(c)(run.stream(), x.view(1000), y.view(1)); },
      [&] { run.same(y.get(), {250}, "zeros"); });
}

template <class T, int width>
constexpr auto sumAndMax = kernel("sum_and_max", [](Tensor<const T, 1> x, Tensor<T, 1> y) {
  Tile v = x.load({0}, {width});
  y.store({0}, sum(v, 0));
  y.store({1}, max(v, 0));
  y.store({2}, min(v, 0));
});
template <class T>
constexpr auto downColumns = kernel("down_columns", [](Tensor<const T, 2> x, Tensor<T, 2> y) {
  Tile v = x.load({0, 0}, {32, 3});
  y.store({0, 0}, max(v, 0));
  y.store({1, 0}, min(v, 0));
  y.store({2, 0}, sum(v, 0));
});

template <class T, int width> void sums(Run &run, std::int64_t n) {
  Guarded<T> x(run, make<T>(n, [](auto i) { return i + 1; })), y(run, 3);
  run.sweep(
      {&y}, [&](const Config &c) { sumAndMax<T, width>.with(c)(run.stream(), x.view(n), y.view(3)); },
      [&] {
        run.same(y.get(), {number<T>(n * (n + 1) / 2), number<T>(n), number<T>(1)},
                 fmt::format("sum, max, min of 1..{} in width {}", n, width));
      });
}
template <class T> void columns(Run &run) {
  Guarded<T> x(run, make<T>(96, [](auto i) { return i; })), y(run, 9);
  run.sweep(
      {&y}, [&](const Config &c) { downColumns<T>.with(c)(run.stream(), x.view(32, 3), y.view(3, 3)); },
      [&] { // sums: 3 * (0 + .. + 31) + 32 j
        run.same(y.get(),
                 make<T>(9, [](auto i) { return i < 3   ? 93 + i
                                                : i < 6 ? i - 3
                                                        : 1488 + 32 * (i - 6); }),
                 "table");
      });
}

template <class T>
constexpr auto unitAxis = kernel("unit_axis", [](Tensor<const T, 2> x, Tensor<T, 2> y) {
  Tile v = x.load({0, 0}, {16, 1});
  y.store({0, 0}, max(v, 1));
  y.store({16, 0}, sum(v, 1));
  y.store({32, 0}, min(v, 1));
  y.store({48, 0}, prod(v, 1));
});
template <class T> void lengthOne(Run &run) {
  Guarded<T> x(run, make<T>(16, [](auto i) { return i * 0.5 - 3; })), y(run, 64);
  run.sweep(
      {&y}, [&](const Config &c) { unitAxis<T>.with(c)(run.stream(), x.view(16, 1), y.view(64, 1)); },
      [&] { run.same(y.get(), make<T>(64, [](auto i) { return i % 16 * 0.5 - 3; }), "the input"); });
}

/// max, maxNum, min, minNum of one tile; running over 4 tiles of 16, lane by lane; running, reduced in the
/// loop.
template <class T>
constexpr auto extremes = kernel("extremes", [](Tensor<const T, 1> x, Tensor<T, 1> y) {
  Tile v = x.load({0}, {64});
  y.store({0}, max(v, 0));
  y.store({1}, maxNum(v, 0));
  y.store({2}, min(v, 0));
  y.store({3}, minNum(v, 0));
  Tile a = x.load({0}, {16}).fill(-inf), b = a, c = x.load({0}, {16}).fill(inf), d = c;
  Tile e = max(a, 0), f = maxNum(b, 0), g = min(c, 0), h = minNum(d, 0);
  for (Tile i : range(16, 64, 16)) {
    Tile low = x.load({i}, {16}).fill(-inf), high = x.load({i}, {16}).fill(inf);
    a = max(a, low);
    b = maxNum(b, low);
    c = min(c, high);
    d = minNum(d, high);
    Tile w = x.load({i}, {16});
    e = max(e, max(w, 0));
    f = maxNum(f, maxNum(w, 0));
    g = min(g, min(w, 0));
    h = minNum(h, minNum(w, 0));
  }
  y.store({4}, max(a, 0));
  y.store({5}, maxNum(b, 0));
  y.store({6}, min(c, 0));
  y.store({7}, minNum(d, 0));
  y.store({8}, e);
  y.store({9}, f);
  y.store({10}, g);
  y.store({11}, h);
});

template <class T> void extremesOf(Run &run) {
  Guarded<T> y(run, 12);
  for (float other : {inf, -inf, 1.5f})
    for (int at : {0, 17, 63, -1, 64}) { // -1: none, 64: all
      Guarded<T> x(run, make<T>(64, [&](auto i) { return at == 64 || i == at ? qnan : other; }));
      const float propagating = at == -1 ? other : qnan, ignoring = at == 64 ? qnan : other;
      run.sweep(
          {&y}, [&](const Config &c) { extremes<T>.with(c)(run.stream(), x.view(64), y.view(12)); },
          [&] {
            run.same(y.get(), make<T>(12, [&](auto i) { return i % 2 ? ignoring : propagating; }),
                     fmt::format("NaN at {}, others {}: max, maxNum, min, minNum, and running", at, other));
          },
          run.isGpu() ? 10 : 2);
    }
}

template <class T>
constexpr auto positions = kernel("positions", [](Tensor<const T, 1> x, Tensor<i64, 1> y) {
  Tile v = x.load({0}, {512});
  y.store({0}, cast<i64>(argmax(v, 0)));
  y.store({1}, cast<i64>(argmin(v, 0)));
});
template <class T>
void positionsOf(Run &run, const std::string &what, const std::vector<T> &values, i64 most, i64 least) {
  Guarded<T> x(run, values);
  Guarded<i64> y(run, 2);
  run.sweep(
      {&y}, [&](const Config &c) { positions<T>.with(c)(run.stream(), x.view(values.size()), y.view(2)); },
      [&] {
        run.same(y.get(), {most, least}, what);
      },
      run.isGpu() ? 10 : 2);
}
template <class T> void positionCases(Run &run) {
  positionsOf<T>(run, "9 at 5 and 261", make<T>(300, [](auto i) { return i == 5 || i == 261 ? 9 : 1; }), 5,
                 0);
  positionsOf<T>(run, "1 at 5 and 261", make<T>(300, [](auto i) { return i == 5 || i == 261 ? 1 : 9; }), 0,
                 5);
  positionsOf<T>(run, "all equal", std::vector<T>(300, number<T>(7)), 0, 0);
  positionsOf<T>(run, "one lane", std::vector<T>(1, number<T>(7)), 0, 0);
  if constexpr (!std::is_integral_v<T>) {
    positionsOf<T>(run, "-inf everywhere", std::vector<T>(300, number<T>(-inf)), 0, 0);
    positionsOf<T>(run, "+inf everywhere", std::vector<T>(300, number<T>(inf)), 0, 0);
    positionsOf<T>(run, "NaN at 17 and 200",
                   make<T>(300, [](auto i) { return i == 17 || i == 200 ? qnan : inf; }), 17, 17);
  } else {
    positionsOf<T>(run, "smallest everywhere", std::vector<T>(300, std::numeric_limits<T>::min()), 0, 0);
    positionsOf<T>(run, "largest everywhere", std::vector<T>(300, std::numeric_limits<T>::max()), 0, 0);
  }
}

template <int width>
constexpr auto truths = kernel("truths", [](Tensor<const bool, 1> x, Tensor<bool, 1> y) {
  Tile v = x.load({0}, {width});
  y.store({0}, cast<bool>(sum(cast<i32>(v), 0)));
  y.store({1}, any(v, 0));
  y.store({2}, all(v, 0));
  y.store({3}, cast<bool>(sum(cast<f32>(v), 0)));
});
constexpr auto logic =
    kernel("logic", [](Tensor<const bool, 1> a, Tensor<const bool, 1> b, Tensor<bool, 2> y) {
      Tile p = a.load({0}, {64}), q = b.load({0}, {64});
      y.store({0, 0}, p < q);
      y.store({1, 0}, ~p);
      y.store({2, 0}, p & q);
      y.store({3, 0}, p | q);
      y.store({4, 0}, p ^ q);
      y.store({5, 0}, p == q);
      y.store({6, 0}, p >= q);
      y.store({7, 0}, cast<bool>(cast<i8>(p) + cast<i8>(q)));
    });

template <int width> void truthValues(Run &run, std::int64_t n, std::int64_t trues) {
  Guarded<u8> x(run, make<u8>(n, [&](auto i) { return i < trues; })), y(run, 4);
  run.sweep(
      {&y},
      [&](const Config &c) {
        truths<width>.with(c)(run.stream(), Tensor<const bool, 1>(reinterpret_cast<bool *>(x.data()), {n}),
                              Tensor<bool, 1>(reinterpret_cast<bool *>(y.data()), {4}));
      },
      [&] {
        run.same(y.get(), {u8(trues > 0), u8(trues > 0), u8(trues == n), u8(trues > 0)},
                 fmt::format("{} trues among {}: count, any, all, count in f32", trues, n));
      });
}

} // namespace

SECTILE_CASE("P09a/i32") { countZeroValues<i32>(run); }
SECTILE_CASE("P09a/f32") { countZeroValues<f32>(run); }
SECTILE_CASE("P09a/f16") { countZeroValues<f16>(run); }
SECTILE_CASE("P09a/u8") { countZeroValues<u8>(run); }
SECTILE_CASE("P09b/i32") {
  sums<i32, 48>(run, 48);
  sums<i32, 512>(run, 300);
  sums<i32, 300>(run, 300);
  columns<i32>(run);
}
SECTILE_CASE("P09b/f32") {
  sums<f32, 48>(run, 48);
  sums<f32, 512>(run, 300);
  sums<f32, 300>(run, 300);
  sums<f32, 64>(run, 1);
  columns<f32>(run);
}
SECTILE_CASE("P09b/f64") {
  sums<f64, 48>(run, 48);
  sums<f64, 300>(run, 300);
  columns<f64>(run);
}
SECTILE_CASE("P09b/u64") {
  sums<u64, 48>(run, 48);
  sums<u64, 512>(run, 300);
}
SECTILE_CASE("P09c/f32") { lengthOne<f32>(run); }
SECTILE_CASE("P09c/bf16") { lengthOne<bf16>(run); }
SECTILE_CASE("P09c/e4m3") { lengthOne<e4m3>(run); }
SECTILE_CASE("P09c/f64") { lengthOne<f64>(run); }
SECTILE_CASE("P11/f32") { extremesOf<f32>(run); }
SECTILE_CASE("P11/f16") { extremesOf<f16>(run); }
SECTILE_CASE("P11/bf16") { extremesOf<bf16>(run); }
SECTILE_CASE("P11/f64") { extremesOf<f64>(run); }
SECTILE_CASE("P12/f32") { positionCases<f32>(run); }
SECTILE_CASE("P12/bf16") { positionCases<bf16>(run); }
SECTILE_CASE("P12/f64") { positionCases<f64>(run); }
SECTILE_CASE("P12/i32") { positionCases<i32>(run); }
SECTILE_CASE("P12/u8") { positionCases<u8>(run); }
SECTILE_CASE("P12/i64") { positionCases<i64>(run); }
SECTILE_CASE("P13/counts") {
  truthValues<256>(run, 256, 256);
  truthValues<256>(run, 256, 255);
  truthValues<512>(run, 512, 512);
  truthValues<256>(run, 256, 0);
  truthValues<64>(run, 64, 64);
  truthValues<64>(run, 50, 50); // the missing lanes count for nothing
}
SECTILE_CASE("P13/logic") {
  auto p = [](auto i) { return int(i / 2 % 2); };
  auto q = [](auto i) { return int(i % 2); };
  Guarded<u8> a(run, make<u8>(64, p)), b(run, make<u8>(64, q)), y(run, 8 * 64);
  auto truth = [](Guarded<u8> &m) { return reinterpret_cast<bool *>(m.data()); };
  run.sweep(
      {&y},
      [&](const Config &c) {
        logic.with(c)(run.stream(), Tensor<const bool, 1>(truth(a), {64}),
                      Tensor<const bool, 1>(truth(b), {64}), Tensor<bool, 2>(truth(y), {8, 64}));
      },
      [&] {
        run.same(y.get(),
                 make<u8>(8 * 64,
                          [&](auto n) {
                            const int u = p(n % 64), v = q(n % 64);
                            const int row[] = {u < v, !u, u & v, u | v, u ^ v, u == v, u >= v, u | v};
                            return row[n / 64];
                          }),
                 "logic");
      });
}
