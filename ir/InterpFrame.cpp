// SPDX-License-Identifier: Apache-2.0
/// \file State of a launch, existence of lanes, box copies, and the structured control flow.
#include "ir/InterpImpl.h"
#include "ir/base/Scalar.h"

#include <cstdlib>
#include <new>

namespace sectile::tileir::interp {

// --- frame
// ------------------------------------------------------------------------------------------------------

static constexpr std::int64_t bufferAlign = 64;
static std::int64_t padded(std::int64_t bytes) {
  return (bytes + bufferAlign - 1) / bufferAlign * bufferAlign;
}

Frame::Frame(const Program &program) : program(program), values(program.slots.size()) {
  std::int64_t total = padded(program.scratchBytes) + bufferAlign;
  for (std::int64_t bytes : program.bufferBytes)
    total += padded(bytes);
  arena.reset(static_cast<char *>(std::aligned_alloc(bufferAlign, std::size_t(total))));
  if (!arena)
    throw std::bad_alloc();
  char *at = arena.get();
  for (std::int64_t bytes : program.bufferBytes) {
    buffers.push_back(at);
    at += padded(bytes);
  }
  scratch = at;
}

std::uint8_t *Frame::makeMask(int s) {
  State &v = value(s);
  v.masked = true;
  v.mask.resize(std::size_t(slot(s).lanes));
  return v.mask.data();
}

void Frame::setComplete(int s) {
  State &v = value(s);
  v.lo = {};
  v.hi = slot(s).shape;
  v.masked = false;
}

bool Frame::wholeExtents(int s) {
  const State &v = value(s);
  for (int d = 0; d < slot(s).rank; ++d)
    if (v.lo[d] != 0 || v.hi[d] != slot(s).shape[d])
      return false;
  return true;
}

// --- existence of lanes
// -----------------------------------------------------------------------------------------

void copyExistence(int from, int to, Frame &f) {
  const State &v = f.value(from);
  State &r = f.value(to);
  r.lo = v.lo;
  r.hi = v.hi;
  r.masked = false;
  if (v.masked)
    std::memcpy(f.makeMask(to), v.mask.data(), v.mask.size());
}

void joinExistence(const std::vector<int> &in, int out, Frame &f) {
  const Slot &slot = f.slot(out);
  f.setComplete(out);
  State &r = f.value(out);
  for (int operand : in) {
    const State &v = f.value(operand);
    bool scalar = f.slot(operand).rank == 0 && slot.rank != 0;
    if (!scalar)
      for (int d = 0; d < slot.rank; ++d) {
        r.lo[d] = std::max(r.lo[d], v.lo[d]);
        r.hi[d] = std::min(r.hi[d], v.hi[d]);
      }
    if (!v.masked)
      continue;
    if (scalar) {
      if (!v.mask[0])
        std::memset(f.makeMask(out), 0, std::size_t(slot.lanes));
    } else if (!r.masked) {
      std::memcpy(f.makeMask(out), v.mask.data(), v.mask.size());
    } else {
      for (std::size_t i = 0; i < r.mask.size(); ++i)
        r.mask[i] &= v.mask[i];
    }
  }
  for (int d = 0; d < slot.rank; ++d)
    if (r.lo[d] >= r.hi[d])
      r.lo[d] = r.hi[d] = 0;
}

void expandExistence(Frame &f, int s, std::uint8_t *out) {
  const Slot &slot = f.slot(s);
  const State &v = f.value(s);
  if (f.wholeExtents(s)) {
    if (v.masked)
      std::memcpy(out, v.mask.data(), std::size_t(slot.lanes));
    else
      std::memset(out, 1, std::size_t(slot.lanes));
    return;
  }
  std::memset(out, 0, std::size_t(slot.lanes));
  Coords strides = rowMajor(slot, 1), n{}, none{};
  std::int64_t start = 0;
  for (int d = 0; d < slot.rank; ++d) {
    n[d] = std::max<std::int64_t>(v.hi[d] - v.lo[d], 0);
    start += v.lo[d] * strides[d];
  }
  static const char one = 1;
  if (v.masked)
    copyBox(1, slot.rank, n.data(), reinterpret_cast<const char *>(v.mask.data()) + start, strides.data(),
            reinterpret_cast<char *>(out) + start, strides.data());
  else
    copyBox(1, slot.rank, n.data(), &one, none.data(), reinterpret_cast<char *>(out) + start, strides.data());
}

// --- boxes
// ------------------------------------------------------------------------------------------------------

Coords rowMajor(const Slot &slot, std::int64_t size) {
  Coords strides{};
  for (int d = slot.rank - 1; d >= 0; --d) {
    strides[d] = size;
    size *= slot.shape[d];
  }
  return strides;
}

template <class T>
static void copyRow(std::int64_t n, const char *src, std::int64_t ss, char *dst, std::int64_t ds) {
  if (ds == sizeof(T) && ss == 0) {
    T v;
    std::memcpy(&v, src, sizeof(T));
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(dst + i * std::int64_t(sizeof(T)), &v, sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(dst + i * ds, src + i * ss, sizeof(T));
}

static void copyRow(std::int64_t size, std::int64_t n, const char *src, std::int64_t ss, char *dst,
                    std::int64_t ds) {
  if (ss == size && ds == size) {
    std::memcpy(dst, src, std::size_t(n * size));
    return;
  }
  switch (size) {
  case 1:
    return copyRow<std::uint8_t>(n, src, ss, dst, ds);
  case 2:
    return copyRow<std::uint16_t>(n, src, ss, dst, ds);
  case 4:
    return copyRow<std::uint32_t>(n, src, ss, dst, ds);
  default:
    return copyRow<std::uint64_t>(n, src, ss, dst, ds);
  }
}

void copyBox(std::int64_t size, int rank, const std::int64_t *n, const char *src,
             const std::int64_t *srcStride, char *dst, const std::int64_t *dstStride) {
  // Axes of length 1 go, neighbours that form one run on both sides merge.
  Coords len{}, ss{}, ds{};
  int r = 0;
  for (int d = 0; d < rank; ++d) {
    if (n[d] <= 0)
      return;
    if (n[d] == 1)
      continue;
    if (r > 0 && ss[r - 1] == srcStride[d] * n[d] && ds[r - 1] == dstStride[d] * n[d]) {
      len[r - 1] *= n[d];
      ss[r - 1] = srcStride[d];
      ds[r - 1] = dstStride[d];
      continue;
    }
    len[r] = n[d];
    ss[r] = srcStride[d];
    ds[r] = dstStride[d];
    ++r;
  }
  if (r == 0) {
    std::memcpy(dst, src, std::size_t(size));
    return;
  }
  Coords at{};
  while (true) {
    copyRow(size, len[r - 1], src, ss[r - 1], dst, ds[r - 1]);
    int d = r - 2;
    for (; d >= 0; --d) {
      src += ss[d];
      dst += ds[d];
      if (++at[d] < len[d])
        break;
      src -= ss[d] * len[d];
      dst -= ds[d] * len[d];
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

void fillLanes(char *dst, const char *element, std::int64_t size, std::int64_t lanes) {
  std::int64_t none = 0;
  copyBox(size, 1, &lanes, element, &none, dst, &size);
}

// --- values handed on
// -------------------------------------------------------------------------------------------

static void copyValue(int from, int to, Frame &f) {
  const Slot &slot = f.slot(from);
  if (slot.isView) {
    f.value(to).view = f.value(from).view;
    return;
  }
  std::memcpy(f.data(to), f.data(from), std::size_t(slot.lanes) * byteSize(slot.dtype));
  copyExistence(from, to, f);
}

static void swapValues(int from, int to, Frame &f) {
  std::swap(f.value(from), f.value(to));
  if (!f.slot(from).isView)
    std::swap(f.buffers[std::size_t(f.slot(from).buffer)], f.buffers[std::size_t(f.slot(to).buffer)]);
}

void runTransfers(const Body &body, Frame &f) {
  struct Saved {
    State value;
    std::vector<char> lanes;
  };
  std::vector<Saved> saved;
  for (const Transfer &t : body.transfers) {
    if (t.swap)
      continue;
    if (!body.overlapping) {
      copyValue(t.from, t.to, f);
      continue;
    }
    const Slot &slot = f.slot(t.from);
    Saved &s = saved.emplace_back();
    s.value = f.value(t.from);
    if (!slot.isView)
      s.lanes.assign(f.data(t.from), f.data(t.from) + std::size_t(slot.lanes) * byteSize(slot.dtype));
  }
  for (const Transfer &t : body.transfers)
    if (t.swap)
      swapValues(t.from, t.to, f);
  auto next = saved.begin();
  for (const Transfer &t : body.transfers)
    if (!t.swap && body.overlapping) {
      f.value(t.to) = std::move(next->value);
      if (!f.slot(t.to).isView)
        std::memcpy(f.data(t.to), next->lanes.data(), next->lanes.size());
      ++next;
    }
}

void runBody(const Body &body, Frame &f) {
  for (const Step &s : body.steps)
    s.run(s, f);
  runTransfers(body, f);
}

// --- control flow
// -----------------------------------------------------------------------------------------------

static std::int64_t readInt(Frame &f, int s) {
  return detail::visitDType(f.slot(s).dtype, [&]<class T>(std::type_identity<T>) {
    return detail::cast<std::int64_t>(*f.lanes<T>(s));
  });
}
static void writeInt(Frame &f, int s, std::int64_t v) {
  detail::visitDType(f.slot(s).dtype,
                     [&]<class T>(std::type_identity<T>) { *f.lanes<T>(s) = detail::cast<T>(v); });
  f.setComplete(s);
}

/// in: lower bound, upper bound, step; out: induction variable; ints: 0, or for unsigned bounds the bits of
/// their type; bodies: initial values, then the loop. A step below 1 makes no trip.
void stepFor(const Step &s, Frame &f) {
  std::int64_t lower = readInt(f, s.in[0]), upper = readInt(f, s.in[1]), step = readInt(f, s.in[2]);
  runTransfers(s.bodies[0], f);
  if (s.ints[0] != 0 && s.ints[0] < 64) {
    std::int64_t low = (std::int64_t(1) << s.ints[0]) - 1;
    lower &= low;
    upper &= low;
    step &= low;
  }
  bool some = s.ints[0] ? std::uint64_t(lower) < std::uint64_t(upper) : lower < upper;
  if (!some || step < 1)
    return;
  std::uint64_t trips = (std::uint64_t(upper) - std::uint64_t(lower) - 1) / std::uint64_t(step) + 1;
  for (std::uint64_t i = 0; i < trips; ++i) {
    writeInt(f, s.out[0], std::int64_t(std::uint64_t(lower) + i * std::uint64_t(step)));
    runBody(s.bodies[1], f);
  }
}

/// in: condition; bodies: then, else.
void stepIf(const Step &s, Frame &f) { runBody(s.bodies[*f.lanes<bool>(s.in[0]) ? 0 : 1], f); }

/// bodies: initial values, before (with the condition), after.
void stepWhile(const Step &s, Frame &f) {
  runTransfers(s.bodies[0], f);
  while (true) {
    const Body &before = s.bodies[1];
    for (const Step &step : before.steps)
      step.run(step, f);
    bool again = *f.lanes<bool>(before.condition); // handing on may take its buffer away
    runTransfers(before, f);
    if (!again)
      return;
    runBody(s.bodies[2], f);
  }
}

} // namespace sectile::tileir::interp
