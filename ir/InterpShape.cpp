// SPDX-License-Identifier: Apache-2.0
/// \file Steps that make, reshape and mask tiles.
#include "ir/InterpImpl.h"

namespace sectile::tileir::interp {

static std::int64_t sizeOf(const Slot &slot) { return std::int64_t(byteSize(slot.dtype)); }

/// bytes: the element; out: the tile.
void stepConstant(const Step &s, Frame &f) {
  const Slot &slot = f.slot(s.out[0]);
  fillLanes(f.data(s.out[0]), s.bytes.data(), sizeOf(slot), slot.lanes);
  f.setComplete(s.out[0]);
}

/// ints: axis.
void stepIota(const Step &s, Frame &f) {
  const Slot &slot = f.slot(s.out[0]);
  std::int64_t axis = s.ints[0], inner = rowMajor(slot, 1)[std::size_t(axis)],
               length = slot.shape[std::size_t(axis)];
  std::int64_t *r = f.lanes<std::int64_t>(s.out[0]);
  for (std::int64_t i = 0; i < slot.lanes; ++i)
    r[i] = i / inner % length;
  f.setComplete(s.out[0]);
}

/// in: scalar.
void stepSplat(const Step &s, Frame &f) {
  const Slot &slot = f.slot(s.out[0]);
  fillLanes(f.data(s.out[0]), f.data(s.in[0]), sizeOf(slot), slot.lanes);
  f.setComplete(s.out[0]);
}

/// The same value under another type of equal shape: lanes and existence. in: x.
void stepCopy(const Step &s, Frame &f) {
  const Slot &slot = f.slot(s.out[0]);
  std::memcpy(f.data(s.out[0]), f.data(s.in[0]), std::size_t(slot.lanes * sizeOf(slot)));
  copyExistence(s.in[0], s.out[0], f);
}

/// in: x. Axes of length 1 repeat.
void stepBroadcast(const Step &s, Frame &f) {
  int x = s.in[0], r = s.out[0];
  const Slot &from = f.slot(x), &to = f.slot(r);
  auto repeat = [&](const char *src, char *dst, std::int64_t size) {
    Coords ss = rowMajor(from, size), ds = rowMajor(to, size);
    for (int d = 0; d < to.rank; ++d)
      if (from.shape[d] != to.shape[d])
        ss[d] = 0;
    copyBox(size, to.rank, to.shape.data(), src, ss.data(), dst, ds.data());
  };
  repeat(f.data(x), f.data(r), sizeOf(to));
  f.setComplete(r);
  const State &v = f.value(x);
  State &out = f.value(r);
  for (int d = 0; d < to.rank; ++d)
    if (from.shape[d] == to.shape[d]) {
      out.lo[d] = v.lo[d];
      out.hi[d] = v.hi[d];
    } else if (v.lo[d] >= v.hi[d]) {
      out.hi[d] = 0;
    }
  if (v.masked)
    repeat(reinterpret_cast<const char *>(v.mask.data()), reinterpret_cast<char *>(f.makeMask(r)), 1);
}

/// ints: perm; in: x.
void stepPermute(const Step &s, Frame &f) {
  int x = s.in[0], r = s.out[0];
  const Slot &from = f.slot(x), &to = f.slot(r);
  auto move = [&](const char *src, char *dst, std::int64_t size) {
    Coords own = rowMajor(from, size), ss{}, ds = rowMajor(to, size);
    for (int d = 0; d < to.rank; ++d)
      ss[d] = own[std::size_t(s.ints[std::size_t(d)])];
    copyBox(size, to.rank, to.shape.data(), src, ss.data(), dst, ds.data());
  };
  move(f.data(x), f.data(r), sizeOf(to));
  f.setComplete(r);
  const State &v = f.value(x);
  State &out = f.value(r);
  for (int d = 0; d < to.rank; ++d) {
    out.lo[d] = v.lo[std::size_t(s.ints[std::size_t(d)])];
    out.hi[d] = v.hi[std::size_t(s.ints[std::size_t(d)])];
  }
  if (v.masked)
    move(reinterpret_cast<const char *>(v.mask.data()), reinterpret_cast<char *>(f.makeMask(r)), 1);
}

/// in: x. Where only axes of length 1 come and go, axes keep their extents; a dropped axis whose one lane
/// does not exist leaves nothing on any axis. Otherwise incomplete extents become a mask.
void stepReshape(const Step &s, Frame &f) {
  int x = s.in[0], r = s.out[0];
  const Slot &from = f.slot(x), &to = f.slot(r);
  std::memcpy(f.data(r), f.data(x), std::size_t(to.lanes * sizeOf(to)));
  f.setComplete(r);
  const State &v = f.value(x);
  State &out = f.value(r);
  if (f.wholeExtents(x)) {
    if (v.masked)
      std::memcpy(f.makeMask(r), v.mask.data(), std::size_t(to.lanes));
    return;
  }
  bool gone = false;
  int i = 0, j = 0;
  while (i < from.rank || j < to.rank) {
    if (i < from.rank && j < to.rank && from.shape[i] == to.shape[j]) {
      out.lo[j] = v.lo[i];
      out.hi[j] = v.hi[i];
      ++i, ++j;
    } else if (i < from.rank && from.shape[i] == 1) {
      gone |= v.lo[i] >= v.hi[i];
      ++i;
    } else if (j < to.rank && to.shape[j] == 1) {
      ++j;
    } else {
      f.setComplete(r);
      expandExistence(f, x, f.makeMask(r));
      return;
    }
  }
  if (gone)
    for (int d = 0; d < to.rank; ++d)
      out.lo[d] = out.hi[d] = 0;
  if (v.masked)
    std::memcpy(f.makeMask(r), v.mask.data(), std::size_t(to.lanes));
  if (gone && to.rank == 0)
    *f.makeMask(r) = 0;
}

/// in: mask, x.
void stepKeep(const Step &s, Frame &f) {
  int cond = s.in[0], x = s.in[1], r = s.out[0];
  const Slot &slot = f.slot(r);
  std::memcpy(f.data(r), f.data(x), std::size_t(slot.lanes * sizeOf(slot)));
  copyExistence(x, r, f);
  std::vector<std::uint8_t> exists;
  if (f.value(cond).masked || !f.wholeExtents(cond)) {
    exists.resize(std::size_t(slot.lanes));
    expandExistence(f, cond, exists.data());
  }
  const std::uint8_t *holds = f.lanes<std::uint8_t>(cond), *before = f.mask(x);
  std::uint8_t *mask = f.makeMask(r), all = 1;
  for (std::int64_t i = 0; i < slot.lanes; ++i) {
    mask[i] = holds[i];
    all &= mask[i];
  }
  if (before)
    for (std::int64_t i = 0; i < slot.lanes; ++i)
      mask[i] &= before[i];
  if (!exists.empty())
    for (std::int64_t i = 0; i < slot.lanes; ++i)
      mask[i] &= exists[std::size_t(i)];
  if (all && !before && exists.empty())
    f.value(r).masked = false;
}

/// in: x, scalar.
void stepFill(const Step &s, Frame &f) {
  int x = s.in[0], r = s.out[0];
  const Slot &slot = f.slot(r);
  std::int64_t size = sizeOf(slot);
  if (f.wholeExtents(x) && !f.value(x).masked) {
    std::memcpy(f.data(r), f.data(x), std::size_t(slot.lanes * size));
    f.setComplete(r);
    return;
  }
  std::vector<std::uint8_t> exists(std::size_t(slot.lanes));
  expandExistence(f, x, exists.data());
  fillLanes(f.data(r), f.data(s.in[1]), size, slot.lanes);
  s.select(reinterpret_cast<const bool *>(exists.data()), f.data(x), f.data(r), f.data(r), slot.lanes);
  f.setComplete(r);
}

} // namespace sectile::tileir::interp
