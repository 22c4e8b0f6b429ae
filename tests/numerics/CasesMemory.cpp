// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

#include <fmt/format.h>

namespace sectile::numerics {
namespace {

struct Form {
  const char *what;
  Shape dims, tile;
  Shape strides, outStrides; ///< empty: packed
  int misalign;              ///< elements
};

const std::vector<Form> forms = {
    {"one tile", {64}, {64}, {}, {}, 0},
    {"tail", {100}, {64}, {}, {}, 0},
    {"shorter than the tile", {5}, {64}, {}, {}, 0},
    {"misaligned base", {200}, {128}, {}, {}, 1},
    {"misaligned by 3", {130}, {32}, {}, {}, 3},
    {"every third", {90}, {32}, {3}, {3}, 0},
    {"backwards", {90}, {32}, {-1}, {-1}, 0},
    {"stride 0", {90}, {32}, {0}, {}, 0},
    {"no elements", {0}, {32}, {}, {}, 0},
    {"length 1", {1}, {1}, {}, {}, 0},
    {"rank 2", {32, 64}, {16, 32}, {}, {}, 0},
    {"rank 2, tails", {37, 61}, {16, 32}, {}, {}, 0},
    {"rank 2, tile larger", {7, 9}, {16, 16}, {}, {}, 0},
    {"rank 2, row pitch", {33, 48}, {8, 64}, {67, 1}, {51, 1}, 0},
    {"rank 2, aligned pitch", {33, 48}, {8, 64}, {64, 1}, {128, 1}, 0},
    {"rank 2, column-major", {40, 36}, {16, 16}, {1, 40}, {1, 41}, 0},
    {"rank 2, column-major to row-major", {64, 64}, {32, 32}, {1, 64}, {}, 0},
    {"rank 2, rows repeated", {20, 40}, {8, 16}, {0, 1}, {}, 0},
    {"rank 2, columns repeated", {20, 40}, {8, 16}, {1, 0}, {}, 0},
    {"rank 2, both backwards", {20, 40}, {8, 16}, {-40, -1}, {-41, -1}, 2},
    {"rank 2, lengths not powers of two", {50, 50}, {12, 20}, {}, {}, 0},
    {"rank 2, row of one", {1, 70}, {4, 32}, {}, {}, 0},
    {"rank 3", {5, 9, 33}, {2, 4, 16}, {}, {}, 0},
    {"rank 3, middle axis fastest", {4, 32, 5}, {2, 16, 4}, {200, 1, 37}, {}, 0},
    {"rank 4", {3, 2, 7, 20}, {2, 1, 4, 16}, {}, {}, 1},
    {"rank 5", {2, 3, 2, 5, 9}, {1, 2, 2, 4, 8}, {}, {}, 0},
    {"rank 5, backwards and pitched",
     {2, 3, 2, 5, 9},
     {1, 2, 2, 4, 8},
     {-1000, 200, -90, 10, 1},
     {1000, 200, 90, 10, 1},
     0},
};

Kernel copyOf(DType t, const Form &f) {
  Kernel k;
  int bytes = f.misalign * int(byteSize(t));
  int in = k.input(t, f.dims, Fill::special, {f.strides, bytes}),
      out = k.output(t, f.dims, {f.outStrides, bytes});
  auto at = k.grid(out, f.tile);
  k.store(k.load(in, at, f.tile), out, at);
  return k;
}

} // namespace

void addMemory(Cases &cases) {
  for (DType t : allTypes()) {
    for (const Form &f : forms)
      cases.add(fmt::format("copy {} {}: {}", name(t), shapeText(f.tile), f.what), countOf(f.tile),
                [=] { return copyOf(t, f); });
    // Offsets before the tensor, past it, and not multiples of anything.
    for (std::int64_t shift : {-70, -13, 3, 29, 200})
      cases.add(fmt::format("load {} [64] at {}", name(t), shift), 64, [=] {
        Kernel k;
        int in = k.input(t, {75}, Fill::special), out = k.output(t, {64});
        k.store(k.load(in, {k.index(shift)}, {64}), out, {k.index(0)});
        return k;
      });
    for (std::int64_t shift : {-70, -13, 3, 29, 200})
      cases.add(fmt::format("store {} [64] at {}", name(t), shift), 64, [=] {
        Kernel k;
        int in = k.input(t, {64}, Fill::special), out = k.output(t, {75});
        k.store(k.load(in, {k.index(0)}, {64}), out, {k.index(shift)});
        return k;
      });
    cases.add(fmt::format("fill {} [16x32]", name(t)), 512, [=] {
      Kernel k;
      std::mt19937_64 random(3);
      int in = k.input(t, {13, 21}, Fill::special), value = k.scalar(t, sample(t, Fill::unit, random, 0)),
          out = k.output(t, {16, 32});
      int x = k.load(in, {k.index(-2), k.index(-5)}, {16, 32});
      k.store(k.fill(x, value), out, {k.index(0), k.index(0)});
      return k;
    });
    for (auto [lo, hi] : {std::pair{3, 50}, {-5, 20}, {30, 10}, {0, 1000}, {60, 61}})
      cases.add(fmt::format("slice {} [32] from {} to {}", name(t), lo, hi), 32, [=] {
        Kernel k;
        int in = k.input(t, {4, 61}, Fill::special),
            a = k.scalar(DType::index, std::uint64_t(std::int64_t(lo)));
        int b = k.scalar(DType::index, std::uint64_t(std::int64_t(hi))), out = k.output(t, {4, 96});
        auto at = k.grid(out, {2, 32});
        int s = k.slice(in, 1, a, b);
        k.store(k.load(s, at, {2, 32}), out, at);
        return k;
      });
    cases.add(fmt::format("slice {} of an output", name(t)), 64, [=] {
      Kernel k;
      int in = k.input(t, {8, 8}, Fill::special), out = k.output(t, {20, 20});
      int s = k.slice(k.slice(out, 0, k.index(3), k.index(9)), 1, k.index(5), k.index(100));
      k.store(k.load(in, {k.index(0), k.index(0)}, {8, 8}), s, {k.index(0), k.index(9)});
      return k;
    });
    cases.add(fmt::format("gather {} [64]", name(t)), 64, [=] {
      Kernel k;
      int in = k.input(t, {37}, Fill::special), where = k.input(DType::i32, {100}, Fill::index),
          out = k.output(t, {100});
      auto at = k.grid(out, {64});
      int i = k.cast(k.load(where, at, {64}), DType::index);
      k.store(k.gather(in, {i}), out, at);
      return k;
    });
    cases.add(fmt::format("gather {} [8x16] of rank 2", name(t)), 128, [=] {
      Kernel k;
      int in = k.input(t, {30, 35}, Fill::special, {{41, 1}, 0}),
          rows = k.input(DType::i64, {8, 16}, Fill::index), out = k.output(t, {8, 16});
      std::vector<int> at{k.index(0), k.index(0)};
      int i = k.cast(k.load(rows, at, {8, 16}), DType::index);
      int j = k.binary("mul", k.iota(1, {8, 16}), k.constant(DType::index, {8, 16}, 3));
      k.store(k.gather(in, {i, j}), out, at);
      return k;
    });
    cases.add(fmt::format("gather {} scalar coordinate", name(t)), 32, [=] {
      Kernel k;
      int in = k.input(t, {5, 40}, Fill::special), row = k.scalar(DType::index, 3), out = k.output(t, {32});
      k.store(k.gather(in, {row, k.binary("sub", k.iota(0, {32}), k.constant(DType::index, {32}, 4))}), out,
              {k.index(0)});
      return k;
    });
  }
  // Grids of every rank, and programs that do nothing.
  for (int rank = 1; rank <= 5; ++rank)
    cases.add(fmt::format("grid of rank {}", rank), 8, [=] {
      Kernel k;
      Shape dims, sizes;
      for (int d = 0; d < rank; ++d) {
        dims.push_back(3 + d);
        sizes.push_back(d % 2 + 1);
      }
      int out = k.output(DType::index, dims);
      auto at = k.grid(out, sizes);
      int sum = k.index(0);
      for (int v : at)
        sum = k.binary("add", k.binary("mul", sum, k.index(100)), v);
      int tile = k.splat(sum, sizes);
      k.store(tile, out, at);
      return k;
    });
  cases.add("grid over leading axes", 64, [] {
    Kernel k;
    int in = k.input(DType::f32, {9, 50}, Fill::normal), out = k.output(DType::f32, {9, 50});
    auto at = k.grid(out, {2});
    k.store(k.load(in, {at[0], k.index(0)}, {2, 64}), out, {at[0], k.index(0)});
    return k;
  });
  for (DType t : {DType::i32, DType::u64, DType::f32, DType::e4m3, DType::boolean})
    for (int rank = 1; rank <= 5; ++rank)
      cases.add(fmt::format("dim {} rank {}", name(t), rank), 1, [=] {
        Kernel k;
        Shape dims;
        for (int d = 0; d < rank; ++d)
          dims.push_back(2 + d);
        int in = k.input(t, dims, Fill::normal), out = k.output(DType::index, {rank});
        for (int d = 0; d < rank; ++d)
          k.store(k.reshape(k.dim(in, d), {1}), out, {k.index(d)});
        return k;
      });
}

void addMasks(Cases &cases) {
  for (DType t : allTypes()) {
    cases.add(fmt::format("keep {} [16x32]", name(t)), 512, [=] {
      Kernel k;
      int in = k.input(t, {40, 60}, Fill::special), mask = k.input(DType::boolean, {38, 60}, Fill::normal),
          out = k.output(t, {40, 60});
      auto at = k.grid(out, {16, 32});
      k.store(k.keep(k.load(mask, at, {16, 32}), k.load(in, at, {16, 32})), out, at);
      return k;
    });
    cases.add(fmt::format("keep {} [64] then fill", name(t)), 64, [=] {
      Kernel k;
      std::mt19937_64 random(9);
      int in = k.input(t, {90}, Fill::special), value = k.scalar(t, sample(t, Fill::unit, random, 0)),
          out = k.output(t, {128});
      auto at = k.grid(out, {64});
      int i = k.iota(0, {64}),
          odd = k.compare("ne", k.binary("floormod", i, k.constant(DType::index, {64}, 3)),
                          k.constant(DType::index, {64}, 0));
      k.store(k.fill(k.keep(odd, k.load(in, at, {64})), value), out, at);
      return k;
    });
    cases.add(fmt::format("keep {} [8x16] reshaped, permuted, broadcast", name(t)), 512, [=] {
      Kernel k;
      int in = k.input(t, {8, 13}, Fill::special), mask = k.input(DType::boolean, {8, 16}, Fill::normal),
          out = k.output(t, {4, 16, 8});
      std::vector<int> at{k.index(0), k.index(0)};
      int x = k.keep(k.load(mask, at, {8, 16}), k.load(in, at, {8, 16}));
      int y = k.broadcast(k.reshape(k.permute(x, {1, 0}), {1, 16, 8}), {4, 16, 8});
      k.store(y, out, {k.index(0), k.index(0), k.index(0)});
      return k;
    });
    cases.add(fmt::format("fill {} [16x8] twice", name(t)), 128, [=] {
      Kernel k;
      int in = k.input(t, {11, 5}, Fill::special), out = k.output(t, {16, 8});
      std::vector<int> at{k.index(0), k.index(0)};
      int x = k.fill(k.load(in, at, {16, 8}), k.constant(t, {}, 0));
      k.store(k.fill(x, k.constant(t, {}, 1)), out, at);
      return k;
    });
    if (t != DType::boolean)
      cases.add(fmt::format("keep {} [32] of two masks and a tail", name(t)), 32, [=] {
        Kernel k;
        int a = k.input(t, {30}, Fill::small), b = k.input(t, {27}, Fill::small), out = k.output(t, {32});
        std::vector<int> at{k.index(0)};
        int i = k.iota(0, {32});
        auto less = [&](std::uint64_t n) { return k.compare("lt", i, k.constant(DType::index, {32}, n)); };
        int x = k.keep(less(29), k.load(a, at, {32})), y = k.keep(less(20), k.load(b, at, {32}));
        k.store(k.binary("add", x, y), out, at);
        return k;
      });
  }
}

} // namespace sectile::numerics
