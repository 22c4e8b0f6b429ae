// SPDX-License-Identifier: Apache-2.0
/// \file P15, P18d: running sums and top k, written with reductions over masked lanes and with products; what
/// the language says of lanes that do not exist makes them right at every length.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

/// Running sums in blocks of `width` with a carry: lane i sums the lanes up to i, in a tile of width x width.
template <class T>
constexpr auto runningSums = kernel("running_sums",
                                    [](Tensor<const T, 1> x, Tensor<T, 1> y, Const<i32> width) {
                                      const int B = width;
                                      Tile upTo = iota(1, B) <= iota(B, 1), carry = zeros<T>({1, 1});
                                      for (Tile i : range(0, x.dim(0), B)) {
                                        Tile row = reshape(x.load({i}, {B}).fill(0), {1, B});
                                        Tile sums = sum(keep(upTo, broadcast(row, {B, B})), 1) + carry;
                                        y.store({i}, sums.drop(1));
                                        carry = carry + sum(row, 1);
                                      }
                                    });
/// The same from the right: no sum is taken from another, so that small terms behind large ones stay exact.
template <class T>
constexpr auto fromTheRight = kernel("from_the_right", [](Tensor<const T, 1> x, Tensor<T, 1> y,
                                                          Const<i32> width) {
  const int B = width;
  Tile from = iota(1, B) >= iota(B, 1), carry = zeros<T>({1, 1});
  Tile blocks = (x.dim(0) + (B - 1)) / B;
  for (Tile block : range(blocks - 1, -1, -1)) {
    Tile i = block * B;
    Tile row = reshape(x.load({i}, {B}).fill(0), {1, B});
    y.store({i}, (sum(keep(from, broadcast(row, {B, B})), 1) + carry).drop(1));
    carry = carry + sum(row, 1);
  }
});
/// As a product with a triangle of ones, for several rows at once: sums along rows of [16, B].
template <class T>
constexpr auto byTriangle = kernel("by_triangle", [](Tensor<const T, 2> x, Tensor<f32, 2> y,
                                                     Const<i32> width) {
  const int B = width;
  Tile triangle = cast<T>(select(iota(B, 1) <= iota(1, B), broadcast(scalar<f32>(1), {B, B}), 0.0f));
  auto [r] = grid(x, {16});
  Tile carry = zeros<f32>({16, 1});
  for (Tile i : range(0, x.dim(1), B)) {
    Tile row = x.load({r, i}, {16, B}).fill(0);
    y.store({r, i}, mma(row, triangle) + carry);
    carry = carry + sum(cast<f32>(row), 1);
  }
});
/// A running maximum and its first position, down the columns of [n, 8].
template <class T>
constexpr auto runningMax = kernel("running_max", [](Tensor<const T, 2> x, Tensor<T, 2> y) {
  Tile largest = full<T>({1, 8}, std::numeric_limits<T>::lowest());
  for (Tile i : range(0, x.dim(0))) {
    largest = max(largest, x.load({i, 0}, {1, 8}).fill(std::numeric_limits<T>::lowest()));
    y.store({i, 0}, largest);
  }
});

template <class T, class K>
void scan(Run &run, const K &kernel, const std::vector<T> &x, int width, const std::vector<T> &want,
          const char *what) {
  Guarded<T> in(run, x), out(run, std::int64_t(x.size()));
  const auto n = std::int64_t(x.size());
  run.sweep(
      {&out}, [&](const Config &c) { kernel.with(c)(run.stream(), in.view(n), out.view(n), width); },
      [&] { run.same(out.get(), want, fmt::format("{} of {} in blocks of {}", what, n, width)); },
      run.isGpu() ? 20 : 2);
}

template <class T> void runningSumsOf(Run &run) {
  auto ones = [](std::int64_t n) { return std::vector<T>(std::size_t(n), number<T>(1)); };
  auto counted = [](std::int64_t n) { return make<T>(n, [](auto i) { return i + 1; }); };
  scan(run, runningSums<T>, ones(8), 8, counted(8), "ones"); // narrower than a warp, in a loop
  scan(run, runningSums<T>, ones(32), 32, counted(32), "ones");
  scan(run, runningSums<T>, ones(100), 32, counted(100), "ones");
  for (std::int64_t n : {1, 7, 31, 33, 64, 127})
    for (int width : {8, 16, 64})
      scan(run, runningSums<T>, ones(n), width, counted(n), "ones");
  const auto mixed = make<T>(90, [](auto i) { return (i * 5) % 4; });
  std::vector<T> sums, behind(mixed.size());
  double sum = 0;
  for (const T &v : mixed)
    sums.push_back(number<T>(sum += double(v)));
  for (const T &v : mixed) {
    behind[std::size_t(&v - mixed.data())] = number<T>(sum);
    sum -= double(v);
  }
  scan(run, runningSums<T>, mixed, 32, sums, "mixed");
  scan(run, fromTheRight<T>, mixed, 32, behind, "from the right");
}

template <class T> void triangles(Run &run) {
  constexpr std::int64_t rows = 20;
  for (std::int64_t n : {8, 32, 100, 129})
    for (int width : {16, 32, 64}) {
      Guarded<T> x(run, make<T>(rows * n, [&](auto i) { return (i / n + i % n) % 3; }));
      Guarded<f32> y(run, rows * n);
      run.sweepPipelines(
          {&y},
          [&](const Config &c) {
            byTriangle<T>.with(c)(run.stream(), x.view(rows, n), y.view(rows, n), width);
          },
          [&] {
            std::vector<f32> want;
            for (std::int64_t r = 0; r < rows; ++r)
              for (std::int64_t c = 0, sum = 0; c < n; ++c)
                want.push_back(f32(sum += (r + c) % 3));
            run.same(y.get(), want, fmt::format("{} in blocks of {}", n, width));
          },
          run.isGpu() ? 10 : 2);
    }
}

/// The k largest of a row of 8, sorted: the largest is taken out k times, at its first position.
Tile topK(const Tile &x, int k, std::source_location where = std::source_location::current()) {
  const int length = x.length(0);
  if (k < 1 || k > length)
    throw UserError({where, "top_k", "topK", fmt::format("k is {}, of {} values", k, length), "top_k",
                     fmt::format("1 to {}", length)});
  Tile rest = x, result = zeros<f32>({k});
  for (int i = 0; i < k; ++i) {
    result = select(iota(k) == i, max(rest, 0), result);
    rest = keep(iota(length) != argmax(rest, 0), rest);
  }
  return result;
}
constexpr auto largest = kernel("top_k", [](Tensor<const f32, 1> x, Tensor<f32, 1> y, Const<i32> k) {
  y.store({0}, topK(x.load({0}, {8}), k));
});
constexpr auto lengthOfK =
    kernel("length_of_k", [](Tensor<f32, 1> y, Const<i32> k) { y.store({0}, zeros<f32>({k})); });

void sorted(Run &run, const std::vector<f32> &values, int k, const std::vector<f32> &want) {
  Guarded<f32> x(run, values), y(run, k);
  run.sweep(
      {&y},
      [&](const Config &c) {
        largest.with(c)(run.stream(), x.view(std::int64_t(values.size())), y.view(k), k);
      },
      [&] { run.same(y.get(), want, fmt::format("top {}", k)); });
}

} // namespace

SECTILE_CASE("P15/f32") { runningSumsOf<f32>(run); }
SECTILE_CASE("P15/f64") { runningSumsOf<f64>(run); }
SECTILE_CASE("P15/i32") { runningSumsOf<i32>(run); }
SECTILE_CASE("P15/i64") { runningSumsOf<i64>(run); }
SECTILE_CASE("P15/u8") { runningSumsOf<u8>(run); }
SECTILE_CASE("P15/f16") { runningSumsOf<f16>(run); }
SECTILE_CASE("P15/large-then-small") {
  const auto x = make<f32>(64, [](auto i) { return i < 32 ? 1e8f : 1.0f; });
  for (int width : {8, 16, 32, 64}) {
    Guarded<f32> in(run, x), out(run, 64);
    run.sweep(
        {&out},
        [&](const Config &c) { fromTheRight<f32>.with(c)(run.stream(), in.view(64), out.view(64), width); },
        [&] {
          const std::vector<f32> got = out.get();
          run.same(std::vector<f32>(got.begin() + 32, got.end()),
                   make<f32>(32, [](auto i) { return 32 - i; }),
                   fmt::format("the last 32 in blocks of {}", width));
          for (std::int64_t i = 0; i < 32; ++i)
            run.check(std::abs(double(got[std::size_t(i)]) - (double(32 - i) * 1e8 + 32)) <=
                          64 * 0x1p-24 * 33e8,
                      fmt::format("[{}]: {}", i, got[std::size_t(i)]));
        });
  }
}
SECTILE_CASE("P15/triangle/bf16") { triangles<bf16>(run); }
SECTILE_CASE("P15/triangle/f32") { triangles<f32>(run); }
SECTILE_CASE("P15/running-max") {
  const auto x = make<i32>(40 * 8, [](auto i) { return int((i * 37) % 101) - 50; });
  Guarded<i32> in(run, x), out(run, 40 * 8);
  std::vector<i32> want = x;
  for (std::size_t i = 8; i < want.size(); ++i)
    want[i] = std::max(want[i], want[i - 8]);
  run.sweep(
      {&out},
      [&](const Config &c) { runningMax<i32>.with(c)(run.stream(), in.view(40, 8), out.view(40, 8)); },
      [&] { run.same(out.get(), want, "running maxima"); });
}
SECTILE_CASE("P15/refused") { // blocks without lanes
  Guarded<f32> x(run, 8), y(run, 8);
  for (int width : {0, -8})
    run.refused([&] { runningSums<f32>(run.stream(), x.view(8), y.view(8), width); },
                {"OrderCases.cpp:", "running_sums", std::to_string(width)}, fmt::format("width {}", width));
}
SECTILE_CASE("P18d") {
  const std::vector<f32> x{3, 1, 4, 1, 5, 9, 2, 6};
  sorted(run, x, 1, {9});
  sorted(run, x, 2, {9, 6});
  sorted(run, x, 3, {9, 6, 5});
  sorted(run, x, 8, {9, 6, 5, 4, 3, 2, 1, 1});
  sorted(run, {7, 7, 7, -inf, inf, 0, 7, -1}, 8, {inf, 7, 7, 7, 7, 0, -1, -inf});
  sorted(run, {2, 1}, 2, {2, 1}); // six lanes do not exist
}
SECTILE_CASE("P18d/refused") {
  Guarded<f32> x(run, std::vector<f32>{3, 1, 4, 1, 5, 9, 2, 6}), y(run, 16);
  for (int k : {0, -1, 16, 9}) {
    run.refused([&] { largest(run.stream(), x.view(8), y.view(16), k); },
                {"OrderCases.cpp:", "top_k", std::to_string(k), "8"}, fmt::format("k {}", k));
    if (k < 1) // the language's own rule
      run.refused([&] { lengthOfK(run.stream(), y.view(16), k); },
                  {"OrderCases.cpp:", "tile_length", std::to_string(k)}, fmt::format("a tile of {}", k));
  }
  run.check(y.guardsHold(), "guards");
  sorted(run, x.get(), 2, {9, 6}); // the next one is right
}
