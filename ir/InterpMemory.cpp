// SPDX-License-Identifier: Apache-2.0
/// \file Steps that touch tensor views: the iteration space, slices, loads, stores, gathers.
///
/// Memory outside a view is never touched. Where a `tgpu` op claims that it lies inside and it does not,
/// reads give bytes of 0xff, so that a wrong proof shows in the result.
#include "ir/InterpImpl.h"

namespace sectile::tileir::interp {

namespace {

std::int64_t sizeOf(const Slot &slot) { return std::int64_t(byteSize(slot.dtype)); }

/// x - y, held inside the range of 64 bits.
std::int64_t subSaturated(std::int64_t x, std::int64_t y) {
  std::int64_t r;
  if (!__builtin_sub_overflow(x, y, &r))
    return r;
  return y < 0 ? INT64_MAX : INT64_MIN;
}

/// Half-open box of lanes.
struct Box {
  Coords lo{}, hi{};
  bool empty(int rank) const {
    for (int d = 0; d < rank; ++d)
      if (lo[d] >= hi[d])
        return true;
    return false;
  }
  void clip(int d, std::int64_t from, std::int64_t to) {
    lo[d] = std::max(lo[d], from);
    hi[d] = std::min(hi[d], to);
    if (lo[d] >= hi[d])
      lo[d] = hi[d] = 0;
  }
};

Box wholeBox(const Slot &slot) { return {{}, slot.shape}; }

/// Lanes of a tile at `offsets` that lie in the view.
Box inside(const View &view, const Slot &tile, const Coords &offsets) {
  Box box = wholeBox(tile);
  for (int d = 0; d < tile.rank; ++d)
    box.clip(d, subSaturated(0, offsets[d]), subSaturated(view.dims[d], offsets[d]));
  return box;
}

/// Copies the box between the view and the row-major tile. @pre the box lies in the view
void moveBox(const View &view, const Slot &tile, const Coords &offsets, const Box &box, char *lanes,
             bool toView) {
  if (box.empty(tile.rank))
    return;
  std::int64_t size = sizeOf(tile);
  Coords own = rowMajor(tile, size), far{}, n{};
  char *at = view.data, *lane = lanes;
  for (int d = 0; d < tile.rank; ++d) {
    far[d] = view.strides[d] * size;
    n[d] = box.hi[d] - box.lo[d];
    at += (offsets[d] + box.lo[d]) * far[d];
    lane += box.lo[d] * own[d];
  }
  if (toView)
    copyBox(size, tile.rank, n.data(), lane, own.data(), at, far.data());
  else
    copyBox(size, tile.rank, n.data(), at, far.data(), lane, own.data());
}

void fillBox(const Slot &tile, const Box &box, char *lanes, const char *element) {
  std::int64_t size = sizeOf(tile);
  Coords own = rowMajor(tile, size), none{}, n{};
  for (int d = 0; d < tile.rank; ++d) {
    n[d] = box.hi[d] - box.lo[d];
    lanes += box.lo[d] * own[d];
  }
  copyBox(size, tile.rank, n.data(), element, none.data(), lanes, own.data());
}

/// Any byte but 0 in memory is true.
void normaliseTruth(const Slot &tile, char *lanes) {
  if (tile.dtype == DType::boolean)
    for (std::int64_t i = 0; i < tile.lanes; ++i)
      lanes[i] = lanes[i] != 0;
}

/// Calls f(lane) for the lanes of the box in row-major order.
template <class F> void forLanes(const Slot &tile, const Box &box, F &&f) {
  if (box.empty(tile.rank))
    return;
  Coords own = rowMajor(tile, 1), at = box.lo;
  std::int64_t lane = 0;
  for (int d = 0; d < tile.rank; ++d)
    lane += box.lo[d] * own[d];
  while (true) {
    f(lane, at);
    int d = tile.rank - 1;
    for (; d >= 0; --d) {
      lane += own[d];
      if (++at[d] < box.hi[d])
        break;
      lane -= own[d] * (box.hi[d] - box.lo[d]);
      at[d] = box.lo[d];
    }
    if (d < 0)
      return;
  }
}

Coords readOffsets(const Step &s, Frame &f, std::size_t first, int rank) {
  Coords offsets{};
  for (int d = 0; d < rank; ++d)
    offsets[std::size_t(d)] = f.index(s.in[first + std::size_t(d)]);
  return offsets;
}

void storeBox(Frame &f, int value, const View &view, const Coords &offsets, const Box &box,
              const std::uint8_t *mask, const std::uint8_t *mask2) {
  const Slot &tile = f.slot(value);
  if (!mask && !mask2)
    return moveBox(view, tile, offsets, box, f.data(value), true);
  std::size_t size = std::size_t(sizeOf(tile));
  const char *lanes = f.data(value);
  forLanes(tile, box, [&](std::int64_t lane, const Coords &at) {
    if ((mask && !mask[lane]) || (mask2 && !mask2[lane]))
      return;
    std::int64_t element = 0;
    for (int d = 0; d < tile.rank; ++d)
      element += (offsets[d] + at[d]) * view.strides[d];
    std::memcpy(view.data + element * std::int64_t(size), lanes + lane * std::int64_t(size), size);
  });
}

} // namespace

/// out: offsets.
void stepGrid(const Step &s, Frame &f) {
  for (std::size_t d = 0; d < s.out.size(); ++d) {
    *f.lanes<std::int64_t>(s.out[d]) = f.offsets[d];
    f.setComplete(s.out[d]);
  }
}

/// in: view; ints: axis.
void stepDim(const Step &s, Frame &f) {
  *f.lanes<std::int64_t>(s.out[0]) = f.value(s.in[0]).view.dims[std::size_t(s.ints[0])];
  f.setComplete(s.out[0]);
}

/// in: view, offsets; ints: bytes, bytes of an element.
void stepMisalign(const Step &s, Frame &f) {
  const View &view = f.value(s.in[0]).view;
  std::int64_t at = std::int64_t(reinterpret_cast<std::uintptr_t>(view.data));
  for (std::size_t d = 0; d + 1 < s.in.size(); ++d)
    at += f.index(s.in[d + 1]) * view.strides[d] * s.ints[1];
  *f.lanes<std::int64_t>(s.out[0]) = (at & (s.ints[0] - 1)) / s.ints[1];
  f.setComplete(s.out[0]);
}

/// in: view, lo, hi; ints: axis.
void stepSlice(const Step &s, Frame &f) {
  View view = f.value(s.in[0]).view;
  std::size_t axis = std::size_t(s.ints[0]);
  std::int64_t dim = view.dims[axis];
  std::int64_t lo = std::clamp<std::int64_t>(f.index(s.in[1]), 0, dim);
  std::int64_t hi = std::clamp<std::int64_t>(f.index(s.in[2]), 0, dim);
  view.dims[axis] = std::max<std::int64_t>(hi - lo, 0);
  if (view.dims[axis] > 0)
    view.data += lo * view.strides[axis] * sizeOf(f.slot(s.in[0]));
  f.value(s.out[0]).view = view;
}

/// in: view, offsets.
void stepLoad(const Step &s, Frame &f) {
  int r = s.out[0];
  const Slot &tile = f.slot(r);
  const View &view = f.value(s.in[0]).view;
  Coords offsets = readOffsets(s, f, 1, tile.rank);
  Box box = inside(view, tile, offsets);
  f.setComplete(r);
  f.value(r).lo = box.lo;
  f.value(r).hi = box.hi;
  if (!f.wholeExtents(r))
    std::memset(f.data(r), 0, std::size_t(tile.lanes * sizeOf(tile)));
  moveBox(view, tile, offsets, box, f.data(r), false);
  normaliseTruth(tile, f.data(r));
}

/// in: value, view, offsets.
void stepStore(const Step &s, Frame &f) {
  const Slot &tile = f.slot(s.in[0]);
  const State &v = f.value(s.in[0]);
  const View &view = f.value(s.in[1]).view;
  Coords offsets = readOffsets(s, f, 2, tile.rank);
  Box box = inside(view, tile, offsets);
  for (int d = 0; d < tile.rank; ++d)
    box.clip(d, v.lo[d], v.hi[d]);
  storeBox(f, s.in[0], view, offsets, box, f.mask(s.in[0]), nullptr);
}

namespace {

/// Reads one element per lane. `reads(lane)` says whether the lane reads; where its coordinates fall outside
/// the view `outside(lane, element)` is called instead.
template <class Reads, class Outside>
void gatherLanes(Frame &f, const View &view, int rank, const int *indices, int r, Reads &&reads,
                 Outside &&outside) {
  const Slot &tile = f.slot(r);
  std::int64_t size = sizeOf(tile);
  const std::int64_t *coordinates[maxRank];
  std::int64_t step[maxRank];
  for (int d = 0; d < rank; ++d) {
    coordinates[d] = f.lanes<std::int64_t>(indices[d]);
    step[d] = f.slot(indices[d]).rank == 0 ? 0 : 1;
  }
  char *lanes = f.data(r);
  for (std::int64_t i = 0; i < tile.lanes; ++i) {
    char *lane = lanes + i * size;
    if (!reads(i)) {
      std::memset(lane, 0, std::size_t(size));
      continue;
    }
    std::int64_t element = 0;
    bool in = true;
    for (int d = 0; d < rank && in; ++d) {
      std::int64_t c = coordinates[d][i * step[d]];
      in = c >= 0 && c < view.dims[d];
      element += in ? c * view.strides[d] : 0;
    }
    if (in)
      std::memcpy(lane, view.data + element * size, std::size_t(size));
    else
      outside(i, lane);
  }
  normaliseTruth(tile, lanes);
}

} // namespace

/// in: view, indices.
void stepGather(const Step &s, Frame &f) {
  int r = s.out[0];
  const Slot &tile = f.slot(r);
  std::vector<int> indices(s.in.begin() + 1, s.in.end());
  joinExistence(indices, r, f);
  // Index tiles and scalars alike cut lanes away; what the extents leave is read.
  bool whole = f.wholeExtents(r), masked = f.value(r).masked;
  std::vector<std::uint8_t> exists;
  if (!whole || masked) {
    exists.resize(std::size_t(tile.lanes));
    expandExistence(f, r, exists.data());
  }
  std::vector<std::uint8_t> mask;
  gatherLanes(
      f, f.value(s.in[0]).view, int(indices.size()), indices.data(), r,
      [&](std::int64_t i) { return exists.empty() || exists[std::size_t(i)]; },
      [&](std::int64_t i, char *lane) {
        if (mask.empty())
          mask.assign(std::size_t(tile.lanes), 1);
        mask[std::size_t(i)] = 0;
        std::memset(lane, 0, std::size_t(sizeOf(tile)));
      });
  if (mask.empty())
    return;
  if (masked)
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask[i] &= f.value(r).mask[i];
  std::memcpy(f.makeMask(r), mask.data(), mask.size());
}

/// The box that a bounded `tgpu` op names. ints: axes; the bounds are the operands from `first`: all lo, then
/// all hi.
static Box boundedBox(const Step &s, Frame &f, const Slot &tile, std::size_t first) {
  Box box = wholeBox(tile);
  std::size_t axes = s.ints.size();
  for (std::size_t i = 0; i < axes; ++i)
    box.clip(int(s.ints[i]), f.index(s.in[first + i]), f.index(s.in[first + axes + i]));
  return box;
}

/// in: view, offsets, lo, hi; ints: axes; bytes: pad.
void stepGlobalLoad(const Step &s, Frame &f) {
  int r = s.out[0];
  const Slot &tile = f.slot(r);
  const View &view = f.value(s.in[0]).view;
  Coords offsets = readOffsets(s, f, 1, tile.rank);
  Box box = boundedBox(s, f, tile, 1 + std::size_t(tile.rank)), in = inside(view, tile, offsets), both = box;
  for (int d = 0; d < tile.rank; ++d)
    both.clip(d, in.lo[d], in.hi[d]);
  fillLanes(f.data(r), s.bytes.data(), sizeOf(tile), tile.lanes);
  if (!box.empty(tile.rank) && (both.lo != box.lo || both.hi != box.hi)) {
    static const char ones[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    fillBox(tile, box, f.data(r), ones);
  }
  moveBox(view, tile, offsets, both, f.data(r), false);
  normaliseTruth(tile, f.data(r));
  f.setComplete(r);
}

/// in: tile, lo, hi; ints: axes; bytes: fill.
void stepFillOutside(const Step &s, Frame &f) {
  int r = s.out[0];
  const Slot &tile = f.slot(r);
  Box box = boundedBox(s, f, tile, 1);
  std::int64_t size = sizeOf(tile), first = 0;
  fillLanes(f.data(r), s.bytes.data(), size, tile.lanes);
  if (!box.empty(tile.rank)) {
    Coords own = rowMajor(tile, size), n{};
    for (int d = 0; d < tile.rank; ++d) {
      n[d] = box.hi[d] - box.lo[d];
      first += box.lo[d] * own[d];
    }
    copyBox(size, tile.rank, n.data(), f.data(s.in[0]) + first, own.data(), f.data(r) + first, own.data());
  }
  f.setComplete(r);
}

/// in: value, view, offsets, lo, hi, mask (if bytes is not empty); ints: axes.
void stepGlobalStore(const Step &s, Frame &f) {
  const Slot &tile = f.slot(s.in[0]);
  const State &v = f.value(s.in[0]);
  const View &view = f.value(s.in[1]).view;
  Coords offsets = readOffsets(s, f, 2, tile.rank);
  Box box = boundedBox(s, f, tile, 2 + std::size_t(tile.rank)), in = inside(view, tile, offsets);
  for (int d = 0; d < tile.rank; ++d) {
    box.clip(d, in.lo[d], in.hi[d]);
    box.clip(d, v.lo[d], v.hi[d]);
  }
  const std::uint8_t *mask = s.bytes.empty() ? nullptr : f.lanes<std::uint8_t>(s.in.back());
  storeBox(f, s.in[0], view, offsets, box, f.mask(s.in[0]), mask);
}

/// in: view, indices, mask.
void stepGlobalGather(const Step &s, Frame &f) {
  int r = s.out[0], maskSlot = s.in.back();
  const std::uint8_t *mask = f.lanes<std::uint8_t>(maskSlot);
  std::int64_t step = f.slot(maskSlot).rank == 0 ? 0 : 1;
  gatherLanes(
      f, f.value(s.in[0]).view, int(s.in.size()) - 2, s.in.data() + 1, r,
      [&](std::int64_t i) { return mask[i * step] != 0; },
      [&](std::int64_t, char *lane) { std::memset(lane, 0xff, std::size_t(sizeOf(f.slot(r)))); });
  f.setComplete(r);
}

} // namespace sectile::tileir::interp
