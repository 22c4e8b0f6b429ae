// SPDX-License-Identifier: Apache-2.0
/// \file P01, P03, P04, P06, P08b: offsets, pitch, tails, views, overlapping arguments, nothing at all.
#include "tests/cases/Cases.h"

using namespace cases;

namespace {

constexpr auto copyRows =
    kernel("copy_rows", [](Tensor<const u8, 2> x, Tensor<const i32, 1> rows, Tensor<u8, 2> y) {
      auto [r] = grid(y, {1});
      Tile row = cast<Index>(rows.load({r}, {1}));
      y.store({r, 0}, x.load({reshape(row, {1}).drop(0), 0}, {1, 512}));
    });

/// Fills one row; the host computes its address in 64 bits.
constexpr auto fillRow = kernel("fill_row", [](Tensor<u8, 1> row, Scalar<u8> value) {
  auto [i] = grid(row, {512});
  row.store({i}, full<u8>({512}, value));
});

/// Rows by number out of a buffer of over 2 GiB in which only those rows are written.
void rowsByNumber(Run &run, std::int64_t count, std::int64_t pitch, const std::vector<i32> &numbers) {
  std::optional<Buffer<u8>> x;
  try {
    x.emplace(run.stream(), count * pitch);
  } catch (const UserError &e) {
    if (e.rule() != "out_of_memory")
      throw;
    run.skip(fmt::format("{} bytes are not free", count * pitch));
  }
  if (run.isGpu()) // on the interpreter untouched pages cost nothing, filled ones would
    x->fillBytes(0xFF);
  constexpr std::int64_t width = 512;
  for (i32 r : numbers)
    fillRow(run.stream(), Tensor<u8, 1>(x->data() + r * pitch, {width}), r % 251);
  Guarded<i32> rows(run, numbers);
  const std::int64_t n = std::int64_t(numbers.size());
  Guarded<u8> y(run, n * width);
  run.sweep(
      {&y},
      [&](const Config &c) {
        copyRows.with(c)(run.stream(), Tensor<const u8, 2>(x->data(), {count, width}, {pitch, 1}),
                         rows.view(n), y.view(n, width));
      },
      [&] {
        run.same(y.get(), make<u8>(n * width, [&](auto i) { return numbers[i / width] % 251; }), "row byte");
      });
}

/// Through a plain tile, and through one whose lanes change threads: 8 x 8, transposed.
template <class T>
constexpr auto copyTail = kernel("copy_tail", [](Tensor<const T, 1> x, Tensor<T, 1> y, Tensor<T, 2> z) {
  auto [i] = grid(x, {64});
  Tile v = x.load({i}, {64});
  y.store({i}, v);
  z.store({i, 0}, reshape(v, {8, 8}).t());
});

template <class T> void copyTails(Run &run) {
  for (std::int64_t n : {1, 3, 15, 17, 60, 61, 62, 63, 64, 65}) {
    // z is 8 x 8 over the first 64 cells with its axes swapped, so that z[j][i] lies at i * 8 + j.
    const std::int64_t first = std::min<std::int64_t>(n, 64);
    Guarded<T> x(run, make<T>(n, [](auto i) { return i; })), y(run, 128), z(run, 64);
    run.sweep(
        {&y, &z},
        [&](const Config &c) {
          y.set(std::vector<T>(128, T(-1)));
          z.set(std::vector<T>(64, T(-1)));
          copyTail<T>.with(c)(run.stream(), x.view(n), y.view(n), Tensor<T, 2>(z.data(), {8, 8}, {1, 8}));
        },
        [&] {
          run.same(y.get(), make<T>(128, [&](auto i) { return i < n ? i : -1; }),
                   fmt::format("n {}: out", n));
          run.same(z.get(), make<T>(64, [&](auto i) { return i < first ? i : -1; }),
                   fmt::format("n {}: through t", n));
        },
        run.isGpu() ? 10 : 2);
  }
}

template <class T>
constexpr auto copyView = kernel("copy_view", [](Tensor<const T, 1> x, Tensor<T, 1> y) {
  auto [i] = grid(y, {64});
  y.store({i}, x.load({i}, {64}));
});

template <class T> void reverse(Run &run) {
  Guarded<T> x(run, make<T>(64, [](auto i) { return i; }));
  for (std::int64_t n : {2, 64}) {
    Guarded<T> y(run, n);
    run.sweep(
        {&y},
        [&](const Config &c) {
          copyView<T>.with(c)(run.stream(), Tensor<const T, 1>(x.data() + n - 1, {n}, {-1}), y.view(n));
        },
        [&] { run.same(y.get(), make<T>(n, [&](auto i) { return n - 1 - i; }), "reversed"); });
  }
  Guarded<T> y(run, 32);
  run.sweep(
      {&y},
      [&](const Config &c) {
        copyView<T>.with(c)(run.stream(), Tensor<const T, 1>(x.data() + 62, {32}, {-2}), y.view(32));
      },
      [&] { run.same(y.get(), make<T>(32, [](auto i) { return 62 - 2 * i; }), "step -2"); });
  Guarded<T> backwards(run, 32); // and written through such a view
  run.sweep(
      {&backwards},
      [&](const Config &c) {
        copyView<T>.with(c)(run.stream(), x.view(32), Tensor<T, 1>(backwards.data() + 31, {32}, {-1}));
      },
      [&] { run.same(backwards.get(), make<T>(32, [](auto i) { return 31 - i; }), "written backwards"); });
}

constexpr auto rotate = kernel(
    "rotate", [](Tensor<const i32, 1> x, Tensor<i32, 1> y) { y.store({0}, x.at((iota(64) + 1) % 64)); });
/// Out of a tile that is on chip: row i takes the one lane j = (i + 1) mod 64.
constexpr auto rotateTile = kernel("rotate_tile", [](Tensor<const i32, 1> x, Tensor<i32, 1> y) {
  Tile v = broadcast(reshape(x.load({0}, {64}), {1, 64}), {64, 64});
  Tile wanted = (iota(64, 1) + 1) % 64 == iota(1, 64);
  y.store({0}, sum(keep(wanted, v), 1).drop(1));
});

template <class T>
constexpr auto twoArguments = kernel("two_arguments", [](Tensor<T, 1> first, Tensor<T, 1> second) {
  first.store({0}, full<T>({64}, 1));
  second.store({0}, second.load({0}, {64}) + 2);
});
/// Each lane reads what another one wrote.
constexpr auto mirrored = kernel("mirrored", [](Tensor<i32, 1> first, Tensor<i32, 1> second) {
  first.store({0}, cast<i32>(iota(64)));
  second.store({0}, second.load({0}, {64}) + 100);
});

template <class T> void oneBufferTwice(Run &run) {
  Guarded<T> x(run, 64);
  run.sweep(
      {&x},
      [&](const Config &c) {
        x.set(std::vector<T>(64, T(0)));
        twoArguments<T>.with(c)(run.stream(), x.view(64), x.view(64));
      },
      [&] { run.same(x.get(), std::vector<T>(64, T(3)), "x"); });
  Guarded<T> one(run, 1);
  run.sweep(
      {&one},
      [&](const Config &c) {
        one.set({T(0)});
        twoArguments<T>.with(c)(run.stream(), one.view(1), one.view(1));
      },
      [&] { run.same(one.get(), {T(3)}, "one element"); });
}

template <class T>
constexpr auto storeThenLoad = kernel("store_then_load", [](Tensor<T, 1> a, Tensor<T, 2> d) {
  auto [p, zero] = grid(d, {1, 128});
  Tile at = p * 128;
  for (Tile i : range(0, 16)) {
    Tile v = cast<T>(broadcast(i + p, {128}) + iota(128));
    a.store({at}, v);
    d.store({p, zero}, reshape(a.load({at}, {128}) - v, {1, 128}));
  }
});
/// The load reads each lane's neighbour.
constexpr auto storeThenLoadNext = kernel("store_then_load_next", [](Tensor<i32, 2> a, Tensor<i32, 2> d) {
  auto [p] = grid(d, {1});
  Tile wrong = zeros<i32>({128});
  for (Tile i : range(0, 16)) {
    Tile v = cast<i32>(broadcast(i * 1000 + p, {128}) + iota(128));
    a.store({p, 0}, reshape(v, {1, 128}));
    Tile next = a.at(broadcast(p, {128}), (iota(128) + 1) % 128);
    Tile want = cast<i32>(broadcast(i * 1000 + p, {128}) + (iota(128) + 1) % 128);
    wrong |= next - want;
  }
  d.store({p, 0}, reshape(wrong, {1, 128}));
});

template <class T> void storeLoad(Run &run) {
  Guarded<T> a(run, 64 * 128), d(run, 64 * 128);
  run.sweep(
      {&d},
      [&](const Config &c) { storeThenLoad<T>.with(c)(run.stream(), a.view(64 * 128), d.view(64, 128)); },
      [&] { run.same(d.get(), std::vector<T>(64 * 128, T(0)), "difference"); });
}

constexpr auto plusOne = kernel("plus_one", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) {
  auto [i] = grid(y, {128});
  y.store({i}, x.load({i}, {128}) + 1.0f);
});
constexpr auto rowSums = kernel("row_sums", [](Tensor<const f32, 2> x, Tensor<f32, 2> y) {
  auto [m] = grid(x, {4});
  Tile s = zeros<f32>({4, 1});
  for (Tile k : range(0, x.dim(1), 32))
    s += sum(x.load({m, k}, {4, 32}).fill(0.0f), 1);
  y.store({m, 0}, s);
});

} // namespace

SECTILE_CASE("P01a") { rowsByNumber(run, 262145, 8192, {0, 1, 262143, 262144}); }
SECTILE_CASE("P01b/16384") { rowsByNumber(run, 131073, 16384, {0, 131071, 131072}); }
SECTILE_CASE("P01b/4096") { rowsByNumber(run, 524289, 4096, {0, 524287, 524288}); }
SECTILE_CASE("P03/f32") { copyTails<f32>(run); }
SECTILE_CASE("P03/bf16") { copyTails<bf16>(run); }
SECTILE_CASE("P03/i8") { copyTails<i8>(run); }
SECTILE_CASE("P03/f64") { copyTails<f64>(run); }
SECTILE_CASE("P04a/f32") { reverse<f32>(run); }
SECTILE_CASE("P04a/f16") { reverse<f16>(run); }
SECTILE_CASE("P04a/u8") { reverse<u8>(run); }
SECTILE_CASE("P04a/i64") { reverse<i64>(run); }
SECTILE_CASE("P04b") {
  Guarded<i32> x(run, make<i32>(64, [](auto i) { return i; })), y(run, 64), z(run, 64);
  run.sweep(
      {&y, &z},
      [&](const Config &c) {
        rotate.with(c)(run.stream(), x.view(64), y.view(64));
        rotateTile.with(c)(run.stream(), x.view(64), z.view(64));
      },
      [&] {
        const auto want = make<i32>(64, [](auto i) { return (i + 1) % 64; });
        run.same(y.get(), want, "from memory");
        run.same(z.get(), want, "from a tile");
      });
}
SECTILE_CASE("P06a/f32") { oneBufferTwice<f32>(run); }
SECTILE_CASE("P06a/bf16") { oneBufferTwice<bf16>(run); }
SECTILE_CASE("P06a/i64") { oneBufferTwice<i64>(run); }
SECTILE_CASE("P06a/mirrored") {
  Guarded<i32> x(run, 64);
  run.sweep(
      {&x},
      [&](const Config &c) {
        mirrored.with(c)(run.stream(), x.view(64), Tensor<i32, 1>(x.data() + 63, {64}, {-1}));
      },
      [&] { run.same(x.get(), make<i32>(64, [](auto i) { return i + 100; }), "x"); });
}
SECTILE_CASE("P06b/i32") { storeLoad<i32>(run); }
SECTILE_CASE("P06b/f16") { storeLoad<f16>(run); }
SECTILE_CASE("P06b/next") {
  Guarded<i32> a(run, 64 * 128), d(run, 64 * 128);
  run.sweep(
      {&d},
      [&](const Config &c) { storeThenLoadNext.with(c)(run.stream(), a.view(64, 128), d.view(64, 128)); },
      [&] { run.same(d.get(), std::vector<i32>(64 * 128, 0), "difference"); });
}
SECTILE_CASE("P08b") {
  Guarded<f32> x(run, make<f32>(200, [](auto i) { return i; })), y(run, 200);
  const std::vector<f32> untouched = y.get(), want = make<f32>(200, [](auto i) { return i + 1; });
  auto nothing = [&](const char *when) {
    plusOne(run.stream(), x.view(0), y.view(0));
    plusOne(run.stream(), Tensor<const f32, 1>(nullptr, {0}), Tensor<f32, 1>(nullptr, {0}));
    auto call = plusOne.prepare(x.view(0), y.view(0));
    call(run.stream());
    run.stream().synchronize();
    run.check(y.guardsHold(), when);
  };
  nothing("before");
  run.same(y.get(), untouched, "n 0 first");
  plusOne(run.stream(), x.view(200), y.view(200));
  run.stream().synchronize();
  run.same(y.get(), want, "first ordinary launch");
  nothing("after");
  run.same(y.get(), want, "n 0 afterwards");

  // M = 0, and no columns: rows of nothing sum to 0.
  y.poison();
  rowSums(run.stream(), x.view(0, 20), y.view(0, 1));
  run.stream().synchronize();
  run.same(y.get(), untouched, "M 0");
  rowSums(run.stream(), x.view(10, 0), y.view(10, 1));
  run.stream().synchronize();
  run.same(y.get(), make<f32>(200, [&](auto i) { return i < 10 ? 0.0f : untouched[0]; }), "no columns");
  run.check(y.guardsHold(), "guards");
}
