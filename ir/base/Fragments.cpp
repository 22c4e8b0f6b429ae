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

Layout tcgen05Rows(int columns) {
  assert(std::has_single_bit(unsigned(columns)));
  std::vector<Coords> reg, lane, warp;
  for (int step = 1; step < columns; step *= 2)
    reg.push_back(unit(1, step));
  for (int step = 1; step < 32; step *= 2)
    lane.push_back(unit(0, step));
  for (int step : {32, 64})
    warp.push_back(unit(0, step));
  return Layout(2, {128, columns}, {1, 1}, reg, lane, warp);
}
Layout tcgen05Quads(int repeats) {
  return product(fragmentC(16, 8), Layout::partial(2, {1, 1}, {}, {}, {}, {1, repeats}));
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

std::uint32_t tmaSwizzle(std::uint32_t byteOffset, int spanBytes) {
  assert(spanBytes == 16 || spanBytes == 32 || spanBytes == 64 || spanBytes == 128);
  const std::uint32_t pieces = std::uint32_t(spanBytes) / 16 - 1;
  return byteOffset ^ ((byteOffset >> 7 & pieces) << 4);
}

} // namespace sectile
