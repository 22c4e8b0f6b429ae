// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Fragments.h"

#include <bit>
#include <cassert>

namespace sectile {

static Coords unit(int axis, int step) {
  Coords c;
  c[axis] = step;
  return c;
}

namespace {
struct Bases {
  std::vector<Coords> reg, lane;
};
} // namespace

/// p elements of a register and the lanes of a quad along `axis`, the quads along the other of two axes.
static Bases quads(int axis, int p) {
  Bases b;
  for (int step = 1; step < p; step *= 2)
    b.reg.push_back(unit(axis, step));
  for (int step : {p, 2 * p})
    b.lane.push_back(unit(axis, step));
  for (int step : {1, 2, 4})
    b.lane.push_back(unit(1 - axis, step));
  return b;
}

Layout fragmentA(int m, int k, int p) {
  assert((m == 8 || m == 16) && (k == 4 * p || k == 8 * p));
  Bases b = quads(1, p);
  if (m == 16)
    b.reg.push_back({8, 0});
  if (k == 8 * p)
    b.reg.push_back({0, 4 * p});
  return Layout(2, {m, k}, {1, 1}, b.reg, b.lane, {});
}

Layout fragmentB(int k, int n, int p) {
  assert(n == 8 && (k == 4 * p || k == 8 * p));
  Bases b = quads(0, p);
  if (k == 8 * p)
    b.reg.push_back({4 * p, 0});
  return Layout(2, {k, n}, {1, 1}, b.reg, b.lane, {});
}

Layout fragmentC(int m, int n) {
  assert((m == 8 || m == 16) && n == 8);
  Bases b = quads(1, 2);
  if (m == 16)
    b.reg.push_back({8, 0});
  return Layout(2, {m, n}, {1, 1}, b.reg, b.lane, {});
}

/// The four warps of a warpgroup, one below the other.
static Layout warpgroupRows() { return Layout::partial(2, {4, 1}, {}, {}, {{1, 0}, {2, 0}}); }

Layout wgmmaAccumulator(int n) {
  assert(n > 0 && n % 8 == 0);
  return product(product(fragmentC(16, 8), warpgroupRows()),
                 Layout::partial(2, {1, 1}, {}, {}, {}, {1, n / 8}));
}

Layout wgmmaA(int elemBytes) {
  return product(fragmentA(16, 32 / elemBytes, 4 / elemBytes), warpgroupRows());
}

Layout ldmatrixTile(int elemBytes) {
  assert(elemBytes == 1 || elemBytes == 2 || elemBytes == 4);
  Bases b = quads(1, 4 / elemBytes);
  return Layout::partial(2, {8, 16 / elemBytes}, b.reg, b.lane, {});
}
Layout ldmatrixTransposedTile() {
  Bases b = quads(0, 2);
  return Layout::partial(2, {8, 8}, b.reg, b.lane, {});
}

/// Bases first, 2 * first, ... below `end` along an axis.
static void appendSteps(std::vector<Coords> &bases, int axis, int first, int end) {
  for (int step = first; step < end; step *= 2)
    bases.push_back(unit(axis, step));
}

Layout tcgen05Fragment(TmemShape shape, int repeats, bool packed) {
  assert(std::has_single_bit(unsigned(repeats)));
  Coords tile{16, 1};
  std::vector<Coords> reg, lane;
  switch (shape) {
  case TmemShape::S32x32b:
    tile = {32, repeats};
    appendSteps(reg, 1, 1, repeats);
    appendSteps(lane, 0, 1, 32);
    break;
  case TmemShape::S16x64b: // the lowest lane bit is the lower half of the rows
    tile[1] = 2 * repeats;
    appendSteps(reg, 1, 2, tile[1]);
    lane = {{8, 0}, {0, 1}, {1, 0}, {2, 0}, {4, 0}};
    break;
  case TmemShape::S16x128b:
    tile[1] = 4 * repeats;
    reg = {{8, 0}};
    appendSteps(reg, 1, 4, tile[1]);
    lane = {{0, 1}, {0, 2}, {1, 0}, {2, 0}, {4, 0}};
    break;
  case TmemShape::S16x256b:
    tile[1] = 8 * repeats;
    reg = {{0, 1}, {8, 0}};
    appendSteps(reg, 1, 8, tile[1]);
    lane = {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
    break;
  case TmemShape::S16x32bx2:
    tile[1] = 2 * repeats;
    appendSteps(reg, 1, 1, repeats);
    appendSteps(lane, 0, 1, 16);
    lane.push_back(unit(1, repeats));
    break;
  }
  const Layout words = Layout::partial(2, tile, reg, lane, {});
  return packed ? product(Layout::partial(2, {1, 2}, {{0, 1}}, {}, {}), words) : words;
}

Layout tcgen05Rows(int columns) {
  return product(tcgen05Fragment(TmemShape::S32x32b, columns), warpgroupRows());
}

Layout tcgen05Accumulator(int m, int n, int ctas) {
  const bool halves = ctas == 2 && m == 128; // each CTA has 64 rows, the halves of n one below the other
  assert((ctas == 1 && (m == 64 || m == 128)) || (ctas == 2 && (m == 256 || (halves && n % 2 == 0))));
  assert(n > 0 && (halves ? std::has_single_bit(unsigned(n)) : n % 8 == 0));
  const int columns = halves ? n / 2 : n, core = columns & -columns;
  std::vector<Coords> reg, lane, warp;
  appendSteps(reg, 1, 1, core);
  if (ctas == 1 && m == 64) {
    appendSteps(lane, 0, 1, 16);
    lane.push_back({});
    appendSteps(warp, 0, 16, 64);
  } else {
    appendSteps(lane, 0, 1, 32);
    warp = {unit(0, 32), halves ? unit(1, columns) : unit(0, 64)};
    if (ctas == 2)
      warp.push_back(unit(0, m / 2));
  }
  return Layout(2, {m, halves ? n : core}, {1, columns / core}, reg, lane, warp);
}

Layout scaleFactorAtom() {
  return Layout::partial(2, {128, 4},
                         {{0, 1}, {0, 2}, {32, 0}, {64, 0}, {1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}, {}, {});
}
Layout scaleFactorColumns() {
  std::vector<Coords> lane;
  appendSteps(lane, 0, 1, 32);
  return Layout(2, {128, 4}, {1, 1}, {{0, 1}, {0, 2}, {32, 0}, {64, 0}}, lane, {{}, {}});
}

static std::vector<Coords> scaleBytes(int count) {
  assert(count == 1 || count == 2 || count == 4);
  std::vector<Coords> reg;
  for (int step = 1; step < count; step *= 2)
    reg.push_back(unit(1, step));
  return reg;
}
Layout blockScaleA(int perRow) {
  return Layout(2, {16, perRow}, {1, 1}, scaleBytes(perRow), {{8, 0}, {0, 0}, {1, 0}, {2, 0}, {4, 0}}, {});
}
Layout blockScaleB(int perColumn) {
  return Layout(2, {8, perColumn}, {1, 1}, scaleBytes(perColumn), {{0, 0}, {0, 0}, {1, 0}, {2, 0}, {4, 0}},
                {});
}

std::uint32_t tmaSwizzle(std::uint32_t byteOffset, int spanBytes, int atomBytes) {
  assert(spanBytes == 16 || spanBytes == 32 || spanBytes == 64 || spanBytes == 128);
  assert(atomBytes == 16 || (spanBytes == 128 && (atomBytes == 32 || atomBytes == 64)));
  const std::uint32_t pieces = std::uint32_t(spanBytes / atomBytes) - 1;
  return byteOffset ^ ((byteOffset >> 7 & pieces) * std::uint32_t(atomBytes));
}

Layout tmaTile(int rows, int spanBytes, int elemBytes, int atomBytes) {
  assert(std::has_single_bit(unsigned(rows)) && std::has_single_bit(unsigned(elemBytes)) && elemBytes <= 8);
  std::vector<Coords> offset;
  for (int bytes = elemBytes; bytes < rows * spanBytes; bytes *= 2) {
    const int plain = int(tmaSwizzle(std::uint32_t(bytes), spanBytes, atomBytes));
    offset.push_back({plain / spanBytes, plain % spanBytes / elemBytes});
  }
  return Layout::partial(2, {rows, spanBytes / elemBytes}, offset, {}, {});
}

} // namespace sectile
