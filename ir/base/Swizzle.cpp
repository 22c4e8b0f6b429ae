// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Swizzle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <tuple>

namespace sectile {
namespace {

using Bits = std::int64_t;

constexpr Bits wordBytes = 4, lineBytes = 128, widestAccess = 16;

Bits powerOfTwoIn(Bits v) { return v & -v; }

} // namespace

Bits Swizzle::of(Bits row, Bits column) const {
  Bits x = 0;
  if (chunk == 0)
    return x;
  for (std::size_t i = 0; i < rows.size(); ++i)
    x ^= row >> i & 1 ? rows[i] : 0;
  for (std::size_t i = 0; i < columns.size(); ++i)
    x ^= column / line >> i & 1 ? columns[i] : 0;
  return x;
}

std::vector<Bits> Swizzle::parameters() const {
  auto trimmed = [](std::vector<Bits> v) {
    while (!v.empty() && v.back() == 0)
      v.pop_back();
    return v;
  };
  const std::vector<Bits> r = trimmed(rows), c = trimmed(columns);
  if (chunk == 0 || (r.empty() && c.empty()))
    return {};
  std::vector<Bits> all{chunk, Bits(r.size())};
  all.insert(all.end(), r.begin(), r.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

Bits Swizzle::maskEnd(Bits rows, Bits length, Bits elementBytes) {
  const Bits whole = std::has_single_bit(std::uint64_t(length)) ? rows * length : length;
  return std::min(lineBytes / elementBytes, powerOfTwoIn(whole));
}

std::optional<Swizzle> Swizzle::parse(std::span<const Bits> p, Bits rows, Bits length, Bits elementBytes,
                                      std::string *whyNot) {
  auto fail = [&](std::string why) {
    if (whyNot)
      *whyNot = std::move(why);
    return std::nullopt;
  };
  Swizzle s;
  s.line = lineBytes / elementBytes;
  if (p.empty())
    return s;
  if (p.size() < 2 || p[0] < 1 || !std::has_single_bit(std::uint64_t(p[0])) || p[1] < 0 ||
      p[1] > Bits(p.size()) - 2)
    return fail("a swizzle is [chunk, n, n row masks, column masks], chunk a power of two");
  s.chunk = p[0];
  const Bits end = maskEnd(rows, length, elementBytes);
  for (Bits mask : p.subspan(2))
    if (mask < 0 || mask % s.chunk || mask >= end)
      return fail("mask " + std::to_string(mask) + " must be a multiple of the chunk " +
                  std::to_string(s.chunk) + " below " + std::to_string(end));
  s.rows.assign(p.begin() + 2, p.begin() + 2 + p[1]);
  s.columns.assign(p.begin() + 2 + p[1], p.end());
  for (std::size_t i = 0; i < s.rows.size(); ++i)
    if (length << i < end && s.rows[i])
      return fail("rows within one line of 128 bytes have no mask, bit " + std::to_string(i) + " has " +
                  std::to_string(s.rows[i]));
  return s;
}

BankSide::BankSide(const Layout &layout, std::span<const Bits> shape, Bits elementBytes, bool writes)
    : last(shape.back()), elementBytes(elementBytes), registers(layout.numRegs()) {
  const int rank = int(shape.size());
  run = std::min<Bits>(layout.contiguousRun(rank - 1), std::max<Bits>(1, widestAccess / elementBytes));
  run = std::min(run, powerOfTwoIn(last));
  auto place = [&](int lane) {
    const Coords c = layout.coords(0, lane, 0);
    Bits row = 0;
    for (int d = 0; d + 1 < rank; ++d)
      row = row * shape[std::size_t(d)] + c[d];
    return Step{row, c[rank - 1]};
  };
  const std::uint32_t copies = writes ? layout.freeLanes() : 0;
  for (int lane = 0; lane < warpSize; ++lane)
    if (!(unsigned(lane) & copies))
      places.push_back(place(lane));
  for (int bit = 0; bit < laneBits; ++bit)
    if (!(copies >> bit & 1))
      laneSteps.push_back(place(1 << bit));
}

BankSide BankSide::ofMatrixRows(const Layout &rows, std::span<const Bits> shape, Bits elementBytes) {
  BankSide side(rows, shape, elementBytes, false);
  side.run = widestAccess / elementBytes;
  side.registers *= side.run;
  return side;
}

Bits BankSide::width(const Swizzle &s) const { return s.chunk ? std::min(run, s.chunk) : run; }
Bits BankSide::accesses(const Swizzle &s) const { return std::max<Bits>(1, registers / width(s)); }

std::vector<BankSide::Step> BankSide::together(Bits width) const {
  const Bits lanes = std::clamp<Bits>(lineBytes / (width * elementBytes), 1, warpSize);
  std::vector<Step> steps = laneSteps;
  steps.resize(std::min(steps.size(), std::size_t(std::countr_zero(std::uint64_t(lanes)))));
  return steps;
}

Bits BankSide::cycles(const Swizzle &s) const {
  const Bits bytes = width(s) * elementBytes;
  const std::size_t together = std::size_t(std::clamp<Bits>(lineBytes / bytes, 1, warpSize));
  Bits cycles = 0;
  for (std::size_t first = 0; first < places.size(); first += together) {
    // Different words of one bank follow each other.
    std::array<std::vector<Bits>, lineBytes / wordBytes> words;
    std::size_t longest = 1;
    for (std::size_t i = first; i < std::min(first + together, places.size()); ++i) {
      auto [row, column] = places[i];
      const Bits byte = ((row * last + column) ^ s.of(row, column)) * elementBytes;
      for (Bits word = byte / wordBytes; word <= (byte + bytes - 1) / wordBytes; ++word) {
        auto &bank = words[std::size_t(word) % words.size()];
        if (std::find(bank.begin(), bank.end(), word) == bank.end())
          bank.push_back(word);
        longest = std::max(longest, bank.size());
      }
    }
    cycles += Bits(longest);
  }
  return cycles * accesses(s);
}

Bits BankSide::least(const Swizzle &s) const {
  const Bits together = std::clamp<Bits>(lineBytes / (width(s) * elementBytes), 1, warpSize);
  return (Bits(places.size()) + together - 1) / together * accesses(s);
}

namespace {

/// Finds masks so that the lanes of both sides that are served together lie in different banks. Linear, so it
/// is enough that the images of the lane bits are independent in the bank number. The unknown is the image of
/// each row and high column bit; an image is chosen outside of what the side has so far, for both sides at
/// once: two subspaces do not cover a space over F2, so there mostly is one.
class Construction {
public:
  Construction(Bits chunk, Bits rows, Bits last, Bits elementBytes)
      : elementBytes(elementBytes), last(last), line(lineBytes / elementBytes), chunk(chunk) {
    for (Bits bit = chunk; bit < Swizzle::maskEnd(rows, last, elementBytes); bit *= 2)
      free.push_back(bit);
    while (last * inLine < Swizzle::maskEnd(rows, last, elementBytes))
      inLine *= 2;
  }

  Swizzle solve(const BankSide &writer, const BankSide &reader) {
    std::vector<Vector> vectors;
    int side = 0;
    for (const BankSide *s : {&writer, &reader}) {
      for (BankSide::Step step : s->together(std::min(s->longestRun(), chunk)))
        vectors.push_back({side, highOf(step), bankBits(step.row * last + step.column % line)});
      ++side;
    }
    // What no mask moves comes first, then what both sides have.
    auto order = [&](const Vector &v) {
      if (v.high == 0)
        return 0;
      return std::any_of(vectors.begin(), vectors.end(),
                         [&](const Vector &o) { return o.side != v.side && o.high == v.high; })
                 ? 1
                 : 2;
    };
    std::vector<std::pair<int, std::size_t>> sorted;
    for (std::size_t i = 0; i < vectors.size(); ++i)
      sorted.push_back({order(vectors[i]), i});
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) {
      return std::tuple(a.first, vectors[a.second].high) < std::tuple(b.first, vectors[b.second].high);
    });
    for (auto [rank, i] : sorted)
      place(vectors[i], vectors);

    Swizzle s;
    s.chunk = chunk;
    s.line = line;
    for (const Image &image : images) {
      const int bit = std::countr_zero(std::uint64_t(image.pivot));
      std::vector<Bits> &list = bit < columnBits ? s.rows : s.columns;
      const std::size_t at = std::size_t(bit < columnBits ? bit : bit - columnBits);
      list.resize(std::max(list.size(), at + 1));
      list[at] = image.mask;
    }
    return s;
  }

private:
  static constexpr int columnBits = 32; ///< high column bits start here in `high`

  /// A lane bit of a side: the bits that masks depend on, and the bank number without masks.
  struct Vector {
    int side;
    Bits high, bank;
  };
  /// The mask of the vector `high`, which alone has the bit `pivot`.
  struct Image {
    Bits high, pivot, mask;
  };

  Bits highOf(BankSide::Step s) const { return (s.row & ~(inLine - 1)) | s.column / line << columnBits; }
  /// Within a line, in whole words.
  Bits bankBits(Bits elements) const { return elements * elementBytes % lineBytes / wordBytes; }

  /// What is left of `high`, and the mask of the part taken off.
  std::pair<Bits, Bits> reduce(Bits high) const {
    Bits mask = 0;
    for (const Image &i : images)
      if (high & i.pivot) {
        high ^= i.high;
        mask ^= i.mask;
      }
    return {high, mask};
  }
  static F2Matrix matrix(const std::vector<Bits> &span) {
    F2Matrix m{5, {}};
    for (Bits v : span)
      m.columns.push_back(std::uint64_t(v));
    return m;
  }
  bool isNew(int side, Bits bank) const {
    return !matrix(spans[side]).solve(std::uint64_t(bank)).has_value();
  }

  void place(const Vector &v, const std::vector<Vector> &all) {
    auto [high, known] = reduce(v.high);
    Bits bank = v.bank ^ bankBits(known);
    if (high != 0) {
      // Other lane bits that this image settles.
      std::vector<Vector> settled;
      for (const Vector &o : all)
        if (o.side != v.side)
          if (auto [rest, mask] = reduce(o.high); rest == high)
            settled.push_back({o.side, rest, o.bank ^ bankBits(mask)});
      Bits chosen = 0;
      int best = -1;
      for (std::uint64_t pick = 0; pick < std::uint64_t(1) << free.size(); ++pick) {
        Bits mask = 0;
        for (std::size_t i = 0; i < free.size(); ++i)
          mask |= pick >> i & 1 ? free[i] : 0;
        int good = 2 * isNew(v.side, bank ^ bankBits(mask));
        for (const Vector &o : settled)
          good += isNew(o.side, o.bank ^ bankBits(mask));
        if (good > best) {
          best = good;
          chosen = mask;
        }
      }
      const Bits pivot = powerOfTwoIn(high);
      for (Image &i : images)
        if (i.high & pivot) {
          i.high ^= high;
          i.mask ^= chosen;
        }
      images.push_back({high, pivot, chosen});
      bank ^= bankBits(chosen);
    }
    if (bank != 0 || high != 0 || v.high != 0) // a step within a word meets no bank anew
      spans[v.side].push_back(bank);
  }

  Bits elementBytes, last, line, chunk, inLine = 1; ///< rows in a line, where masks may move them
  std::vector<Bits> free;                           ///< the bits that masks may have
  std::vector<Image> images;
  std::vector<Bits> spans[2];
};

} // namespace

SwizzleChoice chooseSwizzle(const Layout &src, const Layout &dst, std::span<const Bits> shape,
                            Bits elementBytes, const Layout *srcRows, const Layout *dstRows) {
  const BankSide plainWriter(src, shape, elementBytes, true), plainReader(dst, shape, elementBytes, false);
  std::optional<BankSide> rowWriter, rowReader;
  Bits rows = 1;
  for (Bits n : shape.first(shape.size() - 1))
    rows *= n;
  if (srcRows)
    rowWriter = BankSide::ofMatrixRows(*srcRows, shape, elementBytes);
  if (dstRows)
    rowReader = BankSide::ofMatrixRows(*dstRows, shape, elementBytes);
  SwizzleChoice best;
  best.swizzle.line = lineBytes / elementBytes;
  std::pair<Bits, Bits> least{-1, 0};
  auto consider = [&](Bits chunk) {
    const bool wholeRows = chunk == 0 || chunk * elementBytes >= widestAccess;
    const BankSide &writer = rowWriter && wholeRows ? *rowWriter : plainWriter;
    const BankSide &reader = rowReader && wholeRows ? *rowReader : plainReader;
    const Swizzle s =
        chunk ? Construction(chunk, rows, shape.back(), elementBytes).solve(writer, reader) : best.swizzle;
    const Bits cycles = writer.cycles(s) + reader.cycles(s);
    const std::pair<Bits, Bits> cost{cycles, writer.accesses(s) + reader.accesses(s)};
    if (least.first < 0 || cost < least) {
      least = cost;
      best = {s, cycles, cycles - writer.least(s) - reader.least(s)};
    }
  };
  consider(0);
  for (Bits chunk = std::max<Bits>(1, widestAccess / elementBytes); chunk >= 1; chunk /= 2)
    if (chunk < Swizzle::maskEnd(rows, shape.back(), elementBytes))
      consider(chunk);
  return best;
}

} // namespace sectile
