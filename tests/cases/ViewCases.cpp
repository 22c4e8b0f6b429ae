// SPDX-License-Identifier: Apache-2.0
/// \file P01 to P06 once more, for one kernel that is launched with every kind of view in turn: what a launch may
/// assume of alignment and strides must be what holds for its own arguments.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

/// A row to a tile: its elements plus a vector, and its sum.
template <class T>
constexpr auto addToRows =
    kernel("add_to_rows", [](Tensor<const T, 2> x, Tensor<const T, 1> w, Tensor<T, 2> y, Tensor<f32, 1> sums, Config &cfg) {
      const int BC = cfg.cover("BC", x, 1);
      auto [r] = grid(x, {1});
      Tile row = x.load({r, 0}, {1, BC});
      y.store({r, 0}, row + reshape(w.load({0}, {BC}), {1, BC}));
      sums.store({r}, sum(cast<f32>(row), 1).drop(1));
    });

/// The same by blocks, through coordinates lane by lane.
template <class T>
constexpr auto addByGather =
    kernel("add_by_gather", [](Tensor<const T, 2> x, Tensor<const T, 1> w, Tensor<T, 2> y, Tensor<f32, 1> sums) {
      auto [r] = grid(x, {1});
      Tile total = zeros<f32>({64});
      for (Tile k : range(0, x.dim(1), 64)) {
        Tile row = x.at(broadcast(r, {64}), iota(64) + k);
        y.store({r, k}, reshape(row + w.at(iota(64) + k), {1, 64}));
        total += cast<f32>(row).fill(0.0f);
      }
      sums.store({r}, reshape(sum(total, 0), {1}));
    });

/// How a matrix lies in memory.
struct Place {
  const char *name;
  int offset;                    ///< elements that the first one is off its alignment
  std::int64_t rowStep, colStep; ///< 0: rows follow each other; in elements, else
  bool padded = false;           ///< rows are padded to whole 16 elements
  bool broadcast = false;        ///< every row is the same
};
constexpr Place places[] = {
    {"aligned", 0, 0, 1, true},
    {"pointer off by one element", 1, 0, 1, true},
    {"rows one after the other", 0, 0, 1},
    {"rows one after the other, pointer off by three", 3, 0, 1},
    {"transposed", 0, 1, 0},
    {"rows backwards", 0, -1, 1, true},
    {"columns backwards", 2, 0, -1},
    {"every other column", 0, 0, 2},
    {"one row shown often", 0, 0, 1, true, true},
};

template <class T> class Matrix {
public:
  Matrix(Run &run, const Place &place, std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns) {
    colStride = place.colStep ? place.colStep : rows;
    rowStride = columns * std::abs(colStride);
    if (place.padded)
      rowStride = (rowStride + 15) / 16 * 16;
    if (place.rowStep == 1)
      rowStride = 1;
    if (place.rowStep < 0)
      rowStride = -rowStride;
    if (place.broadcast)
      rowStride = 0;
    const std::int64_t lastRow = (rows - 1) * rowStride, lastColumn = (columns - 1) * colStride;
    first = -std::min<std::int64_t>(0, lastRow) - std::min<std::int64_t>(0, lastColumn);
    count = first + std::max<std::int64_t>(0, lastRow) + std::max<std::int64_t>(0, lastColumn) + 1;
    memory.emplace(run, count, place.offset);
  }
  std::int64_t at(std::int64_t r, std::int64_t c) const { return first + r * rowStride + c * colStride; }
  Tensor<T, 2> view() { return Tensor<T, 2>(memory->data() + first, {rows, columns}, {rowStride, colStride}); }
  std::int64_t rows, columns, rowStride, colStride, first = 0, count = 0;
  std::optional<Guarded<T>> memory;
};

template <class T> void views(Run &run) {
  constexpr std::int64_t rows = 5;
  constexpr int kinds = std::size(places), writable = kinds - 1;
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < kinds; ++i) {
    pairs.emplace_back(i, std::min(i, writable - 1));
    pairs.emplace_back(i, 0);
    if (i < writable)
      pairs.emplace_back(0, i);
  }
  for (std::int64_t columns : {100, 600, 1})
    for (auto [from, to] : pairs) {
      Matrix<T> x(run, places[from], rows, columns), y(run, places[to], rows, columns);
      std::vector<T> cells(std::size_t(x.count), T(99)), was(std::size_t(y.count), T(7)), w, wanted = was;
      std::vector<f32> sums(rows, 0.0f);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          cells[std::size_t(x.at(r, c))] = T(float((c * 3 + (places[from].broadcast ? 0 : r)) % 31));
      for (std::int64_t c = 0; c < columns; ++c)
        w.push_back(T(float(c % 8)));
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const float v = float(cells[std::size_t(x.at(r, c))]);
          sums[std::size_t(r)] += v;
          wanted[std::size_t(y.at(r, c))] = T(v + float(w[std::size_t(c)]));
        }
      x.memory->set(cells);
      Guarded<T> weights(run, w, places[to].offset);
      Guarded<f32> s(run, rows);
      for (bool gathered : {false, true}) {
        y.memory->set(was);
        if (gathered)
          addByGather<T>(run.stream(), x.view(), weights.view(columns), y.view(), s.view(rows));
        else
          addToRows<T>(run.stream(), x.view(), weights.view(columns), y.view(), s.view(rows));
        const std::string what = fmt::format("{} columns, {} -> {}{}", columns, places[from].name, places[to].name,
                                             gathered ? ", gathered" : "");
        run.same(y.memory->get(), wanted, what);
        run.same(s.get(), sums, what + ": sums");
        run.check(y.memory->guardsHold(), what + ": written outside");
      }
    }
}

} // namespace

SECTILE_CASE("P04a/views_f32") { views<f32>(run); }
SECTILE_CASE("P04a/views_bf16") { views<bf16>(run); }
SECTILE_CASE("P04a/views_u8") { views<u8>(run); }
SECTILE_CASE("P04a/views_f64") { views<f64>(run); }
