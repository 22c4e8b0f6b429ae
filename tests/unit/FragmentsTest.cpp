// SPDX-License-Identifier: Apache-2.0
/// \file Dictated layouts against the formulas of the PTX ISA, by exhaustion.
#include "ir/base/Fragments.h"

#include <catch2/catch.hpp>

#include <set>

using namespace sectile;

namespace {
template <class Formula> int wrongPlaces(const Layout &l, Formula formula) {
  int wrong = 0;
  for (int w = 0; w < l.numWarps(); ++w)
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < l.numRegs(); ++r)
        wrong += l.coords(r, lane, w) != formula(r, lane, w);
  return wrong;
}
} // namespace

TEST_CASE("wgmma accumulators of every legal n", "[fragments]") {
  for (int n = 8; n <= 256; n += 8) {
    const Layout l = wgmmaAccumulator(n);
    CHECK(l.shape() == std::vector<std::int32_t>{64, n});
    CHECK(l.numRegs() == n / 2);
    CHECK(l.isBijective());
    CHECK(wrongPlaces(l, [](int i, int lane, int w) {
            return Coords{16 * w + lane / 4 + 8 * ((i >> 1) & 1), 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)};
          }) == 0);
    // As f16: packed register j holds two columns.
    CHECK(wrongPlaces(l, [](int e, int lane, int w) {
            const int j = e / 2;
            return Coords{16 * w + lane / 4 + 8 * (j & 1), 8 * (j >> 1) + 2 * (lane % 4) + e % 2};
          }) == 0);
  }
}

TEST_CASE("wgmma A in registers", "[fragments]") {
  CHECK(wrongPlaces(wgmmaA(2), [](int e, int lane, int w) {
          const int r = e / 2;
          return Coords{16 * w + lane / 4 + 8 * (r & 1), 2 * (lane % 4) + e % 2 + 8 * (r >> 1)};
        }) == 0);
  CHECK(wrongPlaces(wgmmaA(1), [](int e, int lane, int w) {
          const int r = e / 4;
          return Coords{16 * w + lane / 4 + 8 * (r & 1), 4 * (lane % 4) + e % 4 + 16 * (r >> 1)};
        }) == 0);
  CHECK(wrongPlaces(wgmmaA(4), [](int r, int lane, int w) {
          return Coords{16 * w + lane / 4 + 8 * (r & 1), lane % 4 + 4 * (r >> 1)};
        }) == 0);
  for (int bytes : {1, 2, 4}) {
    CHECK(wgmmaA(bytes).isBijective());
    CHECK(wgmmaA(bytes).shape() == std::vector<std::int32_t>{64, 32 / bytes});
  }
  // 16 columns of the f32 accumulator, converted in place, are A of a 16-bit product; of an fp8 product they
  // are not.
  CHECK(conversionKind(wgmmaAccumulator(16), wgmmaA(2)) <= ConversionKind::RenameRegisters);
  CHECK(conversionKind(wgmmaAccumulator(32), wgmmaA(1)) == ConversionKind::ShuffleLanes);
}

TEST_CASE("ldmatrix divides the fragments it can load", "[fragments]") {
  for (int bytes : {1, 2, 4}) {
    const Layout tile = ldmatrixTile(bytes);
    CHECK(tile.isBijective());
    CHECK(wrongPlaces(tile, [&](int e, int lane, int) {
            return Coords{lane / 4, 4 / bytes * (lane % 4) + e};
          }) == 0);
    CHECK(divideLeft(fragmentA(16, 32 / bytes, 4 / bytes), tile));
    CHECK(divideLeft(wgmmaA(bytes), tile));
    // B is (k, n): rows of the matrix are n, so the plain form fits the transposed view.
    CHECK(divideLeft(fragmentB(32 / bytes, 8, 4 / bytes).permute(std::vector<int>{1, 0}), tile));
    CHECK_FALSE(divideLeft(fragmentB(32 / bytes, 8, 4 / bytes), tile));
  }
  CHECK(divideLeft(fragmentB(16, 8, 2), ldmatrixTransposedTile()));
  CHECK_FALSE(divideLeft(fragmentA(16, 16, 2), ldmatrixTransposedTile()));
  CHECK(divideLeft(wgmmaAccumulator(24), ldmatrixTile(2)));
  CHECK_FALSE(divideLeft(wgmmaAccumulator(24), ldmatrixTile(4)));
  CHECK_FALSE(divideLeft(Layout::blocked(std::vector<std::int32_t>{64, 64}, 1, 8, 4), ldmatrixTile(2)));
}

TEST_CASE("tensor memory loads and stores of every shape and repeat", "[fragments]") {
  for (int n = 1; n <= 128; n *= 2) {
    CHECK(tcgen05Rows(n).isBijective());
    CHECK(wrongPlaces(tcgen05Rows(n), [](int r, int lane, int w) { return Coords{32 * w + lane, r}; }) == 0);
    for (bool packed : {false, true}) {
      const int p = packed ? 2 : 1; // 16-bit elements per register, neighbouring columns
      auto check = [&](TmemShape shape, int rows, int columns, int regs, auto word) {
        const Layout l = tcgen05Fragment(shape, n, packed);
        CHECK(l.shape() == std::vector<std::int32_t>{rows, columns * p});
        CHECK(l.numRegs() == regs * p);
        CHECK(l.isBijective());
        CHECK(wrongPlaces(l, [&](int e, int lane, int) {
                Coords c = word(e / p, lane);
                c[1] = c[1] * p + e % p;
                return c;
              }) == 0);
      };
      check(TmemShape::S32x32b, 32, n, n, [](int r, int lane) { return Coords{lane, r}; });
      check(TmemShape::S16x64b, 16, 2 * n, n, [](int r, int lane) {
        return Coords{lane / 4 + 8 * (lane & 1), 2 * r + ((lane >> 1) & 1)};
      });
      check(TmemShape::S16x32bx2, 16, 2 * n, n, [&](int r, int lane) {
        return Coords{lane % 16, r + n * (lane / 16)};
      });
      if (n <= 64)
        check(TmemShape::S16x128b, 16, 4 * n, 2 * n, [](int r, int lane) {
          return Coords{lane / 4 + 8 * (r & 1), 4 * (r >> 1) + lane % 4};
        });
      if (n <= 32)
        check(TmemShape::S16x256b, 16, 8 * n, 4 * n, [](int r, int lane) {
          return Coords{lane / 4 + 8 * ((r >> 1) & 1), 8 * (r >> 2) + 2 * (lane % 4) + (r & 1)};
        });
    }
  }
  // What a warp reads with 16x256b, stmatrix stores as 16-bit pairs.
  CHECK(divideLeft(tcgen05Fragment(TmemShape::S16x256b, 4), ldmatrixTile(2)));
}

TEST_CASE("accumulators in tensor memory", "[fragments]") {
  for (int n = 8; n <= 256; n += 8) {
    CHECK(tcgen05Accumulator(128, n, 1).isBijective());
    CHECK(wrongPlaces(tcgen05Accumulator(128, n, 1), [](int column, int lane, int w) {
            return Coords{32 * w + lane, column};
          }) == 0);
    // 64 rows: row r in lane 32 * (r / 16) + r % 16.
    const Layout half = tcgen05Accumulator(64, n, 1);
    CHECK(half.isSurjective());
    CHECK(half.freeLanes() == 16);
    CHECK(wrongPlaces(half, [](int column, int lane, int w) {
            return Coords{16 * w + lane % 16, column};
          }) == 0);
    CHECK(tcgen05Accumulator(256, n, 2).isBijective());
    CHECK(wrongPlaces(tcgen05Accumulator(256, n, 2), [](int column, int lane, int w) {
            return Coords{128 * (w / 4) + 32 * (w % 4) + lane, column};
          }) == 0);
  }
  for (int n = 32; n <= 256; n *= 2) {
    const Layout l = tcgen05Accumulator(128, n, 2);
    CHECK(l.isBijective());
    CHECK(l.numRegs() == n / 2);
    CHECK(wrongPlaces(l, [&](int column, int lane, int w) {
            const int tmemLane = 32 * (w % 4) + lane;
            return Coords{64 * (w / 4) + tmemLane % 64, column + n / 2 * (tmemLane / 64)};
          }) == 0);
  }
}

TEST_CASE("scale factors of tcgen05: an atom in memory and in tensor memory", "[fragments]") {
  const Layout memory = scaleFactorAtom();
  CHECK(memory.isBijective());
  std::set<int> offsets;
  int wrong = 0;
  for (int offset = 0; offset < 512; ++offset) {
    const Coords c = memory.coords(offset, 0, 0);
    wrong += offset != c[0] % 32 * 16 + c[0] / 32 * 4 + c[1];
    offsets.insert(c[0] * 4 + c[1]);
  }
  CHECK(wrong == 0);
  CHECK(offsets.size() == 512);
  const Layout columns = scaleFactorColumns();
  CHECK(columns.isSurjective());
  CHECK(columns.freeWarps() == 3);
  CHECK(wrongPlaces(columns, [](int byte, int lane, int) {
          const int column = byte / 4; // of tensor memory
          return Coords{32 * column + lane, byte % 4};
        }) == 0);
}

TEST_CASE("block-scaled mma.sync: 8-bit containers, packed fp4 and scale factors", "[fragments]") {
  CHECK(wrongPlaces(fragmentA(16, 32, 4), [](int v, int lane, int) {
          const int r = v / 4;
          return Coords{lane / 4 + 8 * (r & 1), 4 * (lane % 4) + v % 4 + 16 * (r >> 1)};
        }) == 0);
  CHECK(wrongPlaces(fragmentB(32, 8, 4), [](int v, int lane, int) {
          return Coords{4 * (lane % 4) + v % 4 + 16 * (v / 4), lane / 4};
        }) == 0);
  CHECK(wrongPlaces(fragmentC(16, 8), [](int r, int lane, int) {
          return Coords{lane / 4 + 8 * (r >> 1), 2 * (lane % 4) + (r & 1)};
        }) == 0);
  for (const Layout &l : {fragmentA(16, 64, 8), fragmentB(64, 8, 8), fragmentA(16, 32, 4), fragmentC(16, 8)})
    CHECK(l.isBijective());
  CHECK(wrongPlaces(fragmentA(16, 64, 8), [](int v, int lane, int) {
          return Coords{lane / 4 + 8 * ((v >> 3) & 1), 8 * (lane % 4) + (v & 7) + 32 * (v >> 4)};
        }) == 0);
  CHECK(wrongPlaces(fragmentB(64, 8, 8), [](int v, int lane, int) {
          return Coords{8 * (lane % 4) + (v & 7) + 32 * (v >> 3), lane / 4};
        }) == 0);
  for (int count : {1, 2, 4}) {
    CHECK(wrongPlaces(blockScaleA(count), [](int r, int lane, int) {
            return Coords{lane / 4 + 8 * (lane & 1), r};
          }) == 0);
    CHECK(blockScaleA(count).freeLanes() == 2);
    CHECK(wrongPlaces(blockScaleB(count), [](int r, int lane, int) { return Coords{lane / 4, r}; }) == 0);
    CHECK(blockScaleB(count).freeLanes() == 3);
  }
}

TEST_CASE("TMA swizzle", "[fragments]") {
  for (int span : {16, 32, 64, 128}) {
    std::set<std::uint32_t> seen;
    int wrong = 0;
    for (std::uint32_t o = 0; o < 2048; ++o) {
      const std::uint32_t s = tmaSwizzle(o, span);
      seen.insert(s);
      wrong +=
          tmaSwizzle(s, span) != o || s / std::uint32_t(span) != o / std::uint32_t(span) || s % 16 != o % 16;
    }
    CHECK(wrong == 0);
    CHECK(seen.size() == 2048);
  }
  CHECK(tmaSwizzle(0, 128) == 0);
  CHECK(tmaSwizzle(128, 128) == 128 + 16);
  CHECK(tmaSwizzle(7 * 128 + 16, 128) == 7 * 128 + 96);
  CHECK(tmaSwizzle(8 * 128, 128) == 8 * 128);
  CHECK(tmaSwizzle(3 * 128, 64) == 3 * 128 + 48);
  CHECK(tmaSwizzle(3 * 128, 32) == 3 * 128 + 16);
  CHECK(tmaSwizzle(300, 16) == 300);
  // A column of 16-byte pieces of eight rows of 128 bytes touches all 32 banks once.
  std::set<std::uint32_t> banks;
  for (std::uint32_t row = 0; row < 8; ++row)
    for (std::uint32_t word = 0; word < 4; ++word)
      banks.insert(tmaSwizzle(row * 128 + 32 + word * 4, 128) / 4 % 32);
  CHECK(banks.size() == 32);
}

TEST_CASE("TMA swizzles as layouts, with every atom", "[fragments]") {
  struct Form {
    int span, atom;
  };
  for (Form f : {Form{16, 16}, Form{32, 16}, Form{64, 16}, Form{128, 16}, Form{128, 32}, Form{128, 64}})
    for (int elemBytes : {1, 2, 4, 8}) {
      const Layout l = tmaTile(64, f.span, elemBytes, f.atom);
      CHECK(l.isBijective());
      int wrong = 0;
      for (int e = 0; e < l.numRegs(); ++e) {
        const Coords c = l.coords(e, 0, 0);
        const std::uint32_t plain = std::uint32_t(c[0] * f.span + c[1] * elemBytes);
        wrong += tmaSwizzle(plain, f.span, f.atom) != std::uint32_t(e * elemBytes);
      }
      CHECK(wrong == 0);
    }
  CHECK(tmaSwizzle(128, 128, 32) == 128 + 32);
  CHECK(tmaSwizzle(5 * 128, 128, 32) == 5 * 128 + 32);
  CHECK(tmaSwizzle(3 * 128, 128, 64) == 3 * 128 + 64);
}
