// SPDX-License-Identifier: Apache-2.0
/// \file Rows that several blocks of a GPU hold together: each element is read once.
#include "tests/cases/Cases.h"

#include <algorithm>

using namespace cases;

namespace {

/// Per row: its elements subtracted from its largest, where the smallest is, and the sum of the differences.
template <class T, int width>
constexpr auto longRows = kernel("long_rows", [](Tensor<const T, 2> x, Tensor<T, 2> y, Tensor<i64, 2> z) {
  auto [r] = grid(x, {1});
  Tile v = x.load({r, 0}, {1, width});
  Tile below = max(v, 1) - v;
  y.store({r, 0}, below);
  z.store({r, 0}, cast<i64>(argmin(v, 1)));
  z.store({r, 1}, cast<i64>(sum(cast<i32>(below), 1)));
});

/// The same rows one after the other in one program: what blocks send each other is reused.
template <class T, int width>
constexpr auto longRowsLoop = kernel("long_rows_loop",
                                     [](Tensor<const T, 2> x, Tensor<T, 2> y, Tensor<i64, 2> z) {
                                       for (Tile r : range(0, x.dim(0), 1)) {
                                         Tile v = x.load({r, 0}, {1, width});
                                         Tile below = max(v, 1) - v;
                                         y.store({r, 0}, below);
                                         z.store({r, 0}, cast<i64>(argmin(v, 1)));
                                         z.store({r, 1}, cast<i64>(sum(cast<i32>(below), 1)));
                                       }
                                     });

template <class T, int width> void rowsOf(Run &run, std::int64_t rows, std::int64_t n) {
  Guarded<T> x(run, make<T>(rows * n, [&](auto i) { return (i % n * 31 + i / n * 17) % 101 + 1; })),
      y(run, rows * n);
  Guarded<i64> z(run, rows * 2);
  std::vector<T> below;
  std::vector<i64> facts;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<std::int64_t> row;
    for (std::int64_t i = 0; i < n; ++i)
      row.push_back((i * 31 + r * 17) % 101 + 1);
    std::int64_t top = *std::max_element(row.begin(), row.end()), sum = 0;
    for (std::int64_t v : row) {
      below.push_back(number<T>(top - v));
      sum += top - v;
    }
    facts.push_back(std::min_element(row.begin(), row.end()) - row.begin());
    facts.push_back(sum);
  }
  auto verify = [&] {
    run.same(z.get(), facts, fmt::format("position and sum per row of {}", n));
    run.same(y.get(), below, fmt::format("rows of {}", n));
  };
  run.sweep(
      {&y, &z},
      [&](const Config &c) {
        longRows<T, width>.with(c)(run.stream(), x.view(rows, n), y.view(rows, n), z.view(rows, 2));
      },
      verify, run.isGpu() ? 20 : 1);
  run.sweep(
      {&y, &z},
      [&](const Config &c) {
        longRowsLoop<T, width>.with(c)(run.stream(), x.view(rows, n), y.view(rows, n), z.view(rows, 2));
      },
      verify, run.isGpu() ? 20 : 1);
}

} // namespace

SECTILE_CASE("P12/long/f32") { rowsOf<f32, 65536>(run, 5, 50257); }
SECTILE_CASE("P12/long/bf16") { rowsOf<bf16, 131072>(run, 3, 128256); }
SECTILE_CASE("P12/long/f64") { rowsOf<f64, 8192>(run, 7, 8190); }
SECTILE_CASE("P12/long/i8") { rowsOf<i8, 65536>(run, 4, 65535); }
SECTILE_CASE("P12/short/f32") { rowsOf<f32, 2048>(run, 300, 1999); }
SECTILE_CASE("P12/short/i64") { rowsOf<i64, 512>(run, 300, 500); }
