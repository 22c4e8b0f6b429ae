// SPDX-License-Identifier: Apache-2.0
/// \file Inverse, composition, product, division and conversions of layouts.
#include "ir/base/Layout.h"

#include <algorithm>
#include <cassert>

namespace sectile {

InverseLayout::InverseLayout(const Layout &l) : linear(l), inverseMatrix(linear.matrix.pseudoInverse()) {}

Place InverseLayout::operator()(const Coords &c) const {
  Coords oddRep, low;
  for (int d = 0; d < linear.rank; ++d) {
    oddRep[d] = c[d] / linear.pow2[d];
    low[d] = c[d] % linear.pow2[d];
    assert(c[d] >= 0 && oddRep[d] < linear.odd[d]);
  }
  const std::uint64_t wanted = linear.pack(low), x = inverseMatrix.apply(wanted);
  assert(linear.matrix.apply(x) == wanted && "no place holds this element");
  const std::uint64_t regs = x & ((std::uint64_t(1) << linear.regBits) - 1);
  return {linear.regNumber(oddRep, regs), int(x >> linear.regBits) & ((1 << linear.laneBits) - 1),
          int(x >> (linear.regBits + linear.laneBits))};
}

InverseLayout invert(const Layout &l) { return InverseLayout(l); }

F2Matrix compose(const InverseLayout &src, const Layout &dst) {
  LinearForm form(dst);
  assert(form.pow2 == src.form().pow2 && form.odd == src.form().odd);
  return src.matrix() * form.matrix;
}

Layout product(const Layout &inner, const Layout &outer) {
  assert(inner.rank() == outer.rank() && inner.numReps() == 1);
  assert(inner.lane().size() + outer.lane().size() <= laneBits);
  auto joined = [&](const std::vector<Coords> &in, const std::vector<Coords> &out) {
    std::vector<Coords> bases = in;
    for (Coords b : out) {
      for (int d = 0; d < inner.rank(); ++d)
        b[d] *= inner.core()[d];
      bases.push_back(b);
    }
    return bases;
  };
  Coords core;
  for (int d = 0; d < inner.rank(); ++d)
    core[d] = inner.core()[d] * outer.core()[d];
  return Layout::partial(inner.rank(), core, joined(inner.reg(), outer.reg()),
                         joined(inner.lane(), outer.lane()), joined(inner.warp(), outer.warp()),
                         outer.reps());
}

std::optional<Layout> divideLeft(const Layout &l, const Layout &inner) {
  if (l.rank() != inner.rank() || inner.numReps() != 1)
    return std::nullopt;
  Coords core;
  for (int d = 0; d < l.rank(); ++d) {
    core[d] = l.core()[d] / inner.core()[d];
    if (core[d] == 0)
      return std::nullopt;
  }
  auto quotient = [&](const std::vector<Coords> &all, const std::vector<Coords> &in,
                      std::vector<Coords> &out) {
    if (in.size() > all.size() || !std::equal(in.begin(), in.end(), all.begin()))
      return false;
    for (std::size_t i = in.size(); i < all.size(); ++i) {
      Coords b = all[i];
      for (int d = 0; d < l.rank(); ++d) {
        if (b[d] % inner.core()[d])
          return false;
        b[d] /= inner.core()[d];
      }
      out.push_back(b);
    }
    return true;
  };
  std::vector<Coords> reg, lane, warp;
  if (!quotient(l.reg(), inner.reg(), reg) || !quotient(l.lane(), inner.lane(), lane) ||
      !quotient(l.warp(), inner.warp(), warp))
    return std::nullopt;
  return Layout::partial(l.rank(), core, std::move(reg), std::move(lane), std::move(warp), l.reps());
}

// --- conversions
// ------------------------------------------------------------------------------------------------

/// The columns [first, first + count) of m.
static F2Matrix columnsOf(const F2Matrix &m, int first, int count) {
  return {m.rows, {m.columns.begin() + first, m.columns.begin() + first + count}};
}

ConversionKind conversionKind(const Layout &src, const Layout &dst) {
  assert(src.shape() == dst.shape() && src.numThreads() == dst.numThreads());
  if (src == dst)
    return ConversionKind::Same;
  const LinearForm s(src), d(dst);
  auto inSpan = [](const F2Matrix &m, std::uint64_t y) { return m.solve(y).has_value(); };

  const F2Matrix srcRegs = columnsOf(s.matrix, 0, s.regBits);
  bool sameThreads = std::equal(s.matrix.columns.begin() + s.regBits, s.matrix.columns.end(),
                                d.matrix.columns.begin() + d.regBits, d.matrix.columns.end());
  auto regsWithin = [&](const F2Matrix &m) {
    return std::all_of(d.matrix.columns.begin(), d.matrix.columns.begin() + d.regBits,
                       [&](std::uint64_t c) { return inSpan(m, c); });
  };
  if (sameThreads && regsWithin(srcRegs))
    return ConversionKind::RenameRegisters;

  // What dst holds in warp w must lie in what src holds in warp w: a span shifted by the images of w.
  const F2Matrix srcWarp = columnsOf(s.matrix, 0, s.regBits + s.laneBits);
  bool within = regsWithin(srcWarp);
  for (int i = 0; within && i < d.laneBits; ++i)
    within = inSpan(srcWarp, d.matrix.columns[d.regBits + i]);
  for (int i = 0; within && i < d.warpBits; ++i)
    within = inSpan(srcWarp, d.matrix.columns[d.regBits + d.laneBits + i] ^
                                 s.matrix.columns[s.regBits + s.laneBits + i]);
  return within ? ConversionKind::ShuffleLanes : ConversionKind::SharedMemory;
}

std::vector<int> registerMap(const Layout &src, const Layout &dst) {
  assert(conversionKind(src, dst) <= ConversionKind::RenameRegisters);
  const LinearForm s(src), d(dst);
  const F2Matrix srcRegs = columnsOf(s.matrix, 0, s.regBits);
  std::vector<int> map;
  for (int r = 0; r < dst.numRegs(); ++r) {
    Coords oddRep;
    std::uint64_t bits;
    d.splitReg(r, oddRep, bits);
    // A register that is there on both sides keeps its number, copies included.
    if (bits >> s.regBits == 0 && s.matrix.apply(bits) == d.matrix.apply(bits))
      map.push_back(s.regNumber(oddRep, bits));
    else
      map.push_back(s.regNumber(oddRep, *srcRegs.solve(d.matrix.apply(bits))));
  }
  return map;
}

std::optional<Place> sourceInWarp(const Layout &src, const Layout &dst, Place p) {
  assert(src.shape() == dst.shape() && src.numThreads() == dst.numThreads());
  const LinearForm s(src), d(dst);
  Coords oddRep;
  std::uint64_t bits;
  d.splitReg(p.reg, oddRep, bits);
  const std::uint64_t wanted = d.matrix.apply(bits | std::uint64_t(p.lane) << d.regBits |
                                              std::uint64_t(p.warp) << (d.regBits + d.laneBits)) ^
                               s.matrix.apply(std::uint64_t(p.warp) << (s.regBits + s.laneBits));
  const std::uint64_t sameLane = s.matrix.apply(std::uint64_t(p.lane) << s.regBits);
  if (std::optional<std::uint64_t> x = columnsOf(s.matrix, 0, s.regBits).solve(wanted ^ sameLane))
    return Place{s.regNumber(oddRep, *x), p.lane, p.warp};
  std::optional<std::uint64_t> x = columnsOf(s.matrix, 0, s.regBits + s.laneBits).solve(wanted);
  if (!x)
    return std::nullopt;
  return Place{s.regNumber(oddRep, *x & ((std::uint64_t(1) << s.regBits) - 1)), int(*x >> s.regBits), p.warp};
}

std::optional<int> regOfBroadcast(const Layout &src, const Layout &dst, int dstReg) {
  if (src.rank() != dst.rank() || src.lane().size() != dst.lane().size() ||
      src.warp().size() != dst.warp().size())
    return std::nullopt;
  Coords keep; // 1 where the axis is not stretched
  for (int d = 0; d < src.rank(); ++d) {
    keep[d] = src.dim(d) == dst.dim(d);
    if (!keep[d] && src.dim(d) != 1)
      return std::nullopt;
  }
  auto seen = [&](Coords c) {
    for (int d = 0; d < maxLayoutRank; ++d)
      c[d] *= keep[d];
    return c;
  };
  auto agree = [&](const std::vector<Coords> &a, const std::vector<Coords> &b) {
    return std::equal(a.begin(), a.end(), b.begin(),
                      [&](const Coords &x, const Coords &y) { return x == seen(y); });
  };
  if (!agree(src.lane(), dst.lane()) || !agree(src.warp(), dst.warp()))
    return std::nullopt;
  const LinearForm s(src);
  Coords wanted = seen(dst.regCoords(dstReg)), oddRep, low;
  for (int d = 0; d < src.rank(); ++d) {
    oddRep[d] = wanted[d] / s.pow2[d];
    low[d] = wanted[d] % s.pow2[d];
  }
  std::optional<std::uint64_t> x = columnsOf(s.matrix, 0, s.regBits).solve(s.pack(low));
  if (!x)
    return std::nullopt;
  return s.regNumber(oddRep, *x);
}

} // namespace sectile
