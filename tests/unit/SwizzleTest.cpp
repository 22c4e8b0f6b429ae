// SPDX-License-Identifier: Apache-2.0
/// \file Swizzles are permutations, and those that are chosen leave no conflict where none needs to be.
#include "ir/base/Swizzle.h"
#include "ir/base/Fragments.h"
#include "ir/base/MmaTable.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>

using namespace sectile;

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t place(const Swizzle &s, const Shape &shape, std::int64_t row, std::int64_t column) {
  return (row * shape.back() + column) ^ s.of(row, column);
}

bool isPermutation(const Swizzle &s, const Shape &shape) {
  std::set<std::int64_t> seen;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d)
    rows *= shape[d];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < shape.back(); ++c)
      seen.insert(place(s, shape, r, c));
  return std::int64_t(seen.size()) == rows * shape.back() && *seen.rbegin() == rows * shape.back() - 1;
}

/// Conflicts of a warp counted element by element: per access and part of 128 bytes, how often a bank has
/// more than one word. Knows nothing of linearity: every register of every warp.
std::int64_t conflicts(const Layout &l, const Shape &shape, std::int64_t elementBytes, const Swizzle &s,
                       std::int64_t width) {
  std::int64_t total = 0;
  const std::vector<int> bits = l.contiguousBits(l.rank() - 1);
  int inVector = 0;
  for (int k = 0; (std::int64_t(2) << k) <= width; ++k)
    inVector |= 1 << bits[std::size_t(k)];
  const int together = int(std::clamp<std::int64_t>(128 / (width * elementBytes), 1, 32));
  for (int w = 0; w < l.numWarps(); ++w)
    for (int r = 0; r < l.numRegs(); ++r) {
      if (r & inVector)
        continue;
      for (int first = 0; first < 32; first += together) {
        std::map<std::int64_t, std::set<std::int64_t>> banks;
        for (int lane = first; lane < first + together; ++lane) {
          const Coords c = l.coords(r, lane, w);
          std::int64_t row = 0;
          for (int d = 0; d + 1 < l.rank(); ++d)
            row = row * shape[std::size_t(d)] + c[d];
          const std::int64_t byte = place(s, shape, row, c[l.rank() - 1]) * elementBytes;
          for (std::int64_t b = byte; b < byte + width * elementBytes; ++b)
            banks[b / 4 % 32].insert(b / 4);
        }
        std::size_t longest = 1;
        for (auto &[bank, words] : banks)
          longest = std::max(longest, words.size());
        total += std::int64_t(longest) - 1;
      }
    }
  return total;
}

} // namespace

TEST_CASE("transposes meet no bank twice", "[swizzle]") {
  int kinds = 0, swizzled = 0;
  for (int bytes : {1, 2, 4, 8})
    for (int warps : {1, 4, 8})
      for (int rows = 32; rows <= 128; rows *= 2)
        for (int columns = 32; columns <= 128; columns *= 2)
          for (int vector = 1; vector * bytes <= 16; vector *= 2) {
            if (rows * columns < warps * 32 * vector)
              continue;
            const std::vector<std::int32_t> tile{rows, columns};
            const Shape shape{rows, columns};
            const Layout across = Layout::blocked(tile, 1, vector, warps),
                         down = Layout::blocked(tile, 0, vector, warps);
            if (conversionKind(across, down) <= ConversionKind::RenameRegisters)
              continue;
            for (auto [src, dst] : {std::pair(&across, &down), std::pair(&down, &across)}) {
              INFO(bytes << " bytes, " << warps << " warps, " << rows << " x " << columns << ", vectors of "
                         << vector);
              const SwizzleChoice choice = chooseSwizzle(*src, *dst, shape, bytes);
              const Swizzle &s = choice.swizzle;
              ++kinds;
              swizzled += s.chunk != 0;
              CHECK(choice.conflicts == 0);
              if (rows * columns <= 4096) {
                CHECK(isPermutation(s, shape));
                CHECK(conflicts(*src, shape, bytes, s, BankSide(*src, shape, bytes, true).width(s)) == 0);
                CHECK(conflicts(*dst, shape, bytes, s, BankSide(*dst, shape, bytes, false).width(s)) == 0);
              }
              auto again = Swizzle::parse(s.parameters(), rows, columns, bytes);
              REQUIRE(again);
              CHECK(again->parameters() == s.parameters());
              for (int r = 0; r < rows; ++r)
                for (int c = 0; c < columns; c += 1 + bytes)
                  if (again->of(r, c) != s.of(r, c))
                    FAIL_CHECK("parameters lose a mask");
            }
          }
  CHECK(kinds > 500);
  CHECK(swizzled > kinds / 2);
}

TEST_CASE("operands of products from coalesced rows meet no bank twice", "[swizzle]") {
  for (const MmaRow &row : mmaRows())
    for (MmaOperand which : {MmaOperand::A, MmaOperand::B}) {
      if (row.kind != MmaKind::MmaSync)
        continue;
      const MmaFragment &f = row.operand(which);
      const int bytes = int(byteSize(f.dtype));
      const std::vector<std::int32_t> tile =
          which == MmaOperand::A ? std::vector<std::int32_t>{64, 64} : std::vector<std::int32_t>{64, 128};
      const Shape shape{tile[0], tile[1]};
      const auto fragment = warpTiled(f.layout, tile, 2, 2, which);
      REQUIRE(fragment);
      const Layout rows = Layout::blocked(tile, 1, 16 / bytes, 4);
      INFO(row.name << (which == MmaOperand::A ? " A" : " B"));
      CHECK(chooseSwizzle(rows, *fragment, shape, bytes).conflicts == 0);
    }
}

TEST_CASE("swizzles of any shape are permutations, never worse than plain rows", "[swizzle]") {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::int32_t> tile;
    for (int d = 1 + int(random() % 3); d > 0; --d)
      tile.push_back(std::int32_t((1 + 2 * (random() % 3)) << random() % 5));
    const int bytes = 1 << random() % 4, warps = 1 << random() % 3;
    const Layout src = Layout::blocked(tile, int(random() % tile.size()), 1 << random() % 3, warps),
                 dst = Layout::blocked(tile, int(random() % tile.size()), 1 << random() % 3, warps);
    const Shape shape(tile.begin(), tile.end());
    const SwizzleChoice choice = chooseSwizzle(src, dst, shape, bytes);
    INFO(src.toString() << "\n" << dst.toString());
    CHECK(isPermutation(choice.swizzle, shape));
    CHECK(choice.conflicts >= 0);
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d)
      rows *= shape[d];
    Swizzle plain;
    plain.line = 128 / bytes;
    CHECK(choice.cycles <=
          BankSide(src, shape, bytes, true).cycles(plain) + BankSide(dst, shape, bytes, false).cycles(plain));
    CHECK(Swizzle::parse(choice.swizzle.parameters(), rows, shape.back(), bytes));
  }
}

TEST_CASE("what is no swizzle is refused with the reason", "[swizzle]") {
  auto why = [](std::vector<std::int64_t> p, std::int64_t length, std::int64_t bytes) {
    std::string text;
    CHECK_FALSE(Swizzle::parse(p, 16, length, bytes, &text));
    return text;
  };
  const std::string form = "a swizzle is [chunk, n, n row masks, column masks], chunk a power of two";
  CHECK(why({3, 0, 3}, 64, 4) == form);
  CHECK(why({4}, 64, 4) == form);
  CHECK(why({4, 3, 4, 8}, 64, 4) == form);
  CHECK(why({4, 2, 4, 6}, 64, 4) == "mask 6 must be a multiple of the chunk 4 below 32");
  CHECK(why({4, 1, 32}, 64, 4) == "mask 32 must be a multiple of the chunk 4 below 32");
  CHECK(why({4, 1, 16}, 48, 4) == "mask 16 must be a multiple of the chunk 4 below 16");
  CHECK(why({2, 2, 0, 2}, 8, 4) == "rows within one line of 128 bytes have no mask, bit 1 has 2");
  CHECK(Swizzle::parse(std::vector<std::int64_t>{2, 3, 0, 0, 8}, 16, 8, 4)); // moves whole rows
  CHECK_FALSE(
      Swizzle::parse(std::vector<std::int64_t>{2, 3, 0, 0, 16}, 6, 8, 4)); // past the end of 48 elements
}
