// SPDX-License-Identifier: Apache-2.0
/// \file Views of tensors, and global memory in the vectors of AccessPlan.
#include "ir/LooseLoads.h"
#include "ir/exec/Program.h"

#include <algorithm>
#include <array>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

Action make(Program &p, GridOp op) {
  if (!isa<BlockArgument>(op.getX()))
    return refuse(op, "the iteration space is not that of an argument");
  p.grid = op;
  SmallVector<Slot> offsets;
  for (Value v : op.getOffsets())
    offsets.push_back(p.define(v));
  return [=, sizes = op.getSizes()](Cluster &b) {
    for (auto [d, s] : llvm::enumerate(offsets))
      b.set(s, b.number[d] * sizes[d]);
  };
}

Action make(Program &p, SplitRangeOp op) {
  Slot lower = p.slot(op.getLower()), upper = p.slot(op.getUpper()), step = p.slot(op.getStep());
  Slot part = p.define(op.getPart()), first = p.define(op.getFirst()), trips = p.define(op.getTrips());
  return [=, fixed = std::int64_t(op.getParts())](Cluster &b) {
    std::int64_t length = b.index(upper) - b.index(lower), by = b.index(step);
    std::int64_t all = length > 0 ? (length + by - 1) / by : 0, each = -1;
    b.parts = std::max<std::int64_t>(1, std::min(fixed ? fixed : b.wantedParts, all));
    if (b.parts > 1) {
      each = (all + b.parts - 1) / b.parts;
      b.parts = (all + each - 1) / each;
    }
    b.set(part, b.part);
    b.set(first, b.part * each);
    b.set(trips, each);
  };
}

Action make(Program &p, SharedProgramsOp op) {
  if (!p.persistent)
    return refuse(op, "the kernel is not persistent");
  p.shares = op;
  Slot lower = p.slot(op.getLower()), upper = p.slot(op.getUpper()), count = p.define(op.getCount());
  return [=](Cluster &b) { b.set(count, b.index(upper) > b.index(lower) && b.wantedParts > 1 ? b.wantedParts : 0); };
}

Action make(Program &p, DimOp op) {
  int view = p.view(op.getX());
  Slot r = p.define(op.getLength());
  return
      [=, axis = std::size_t(op.getAxis())](Cluster &b) { b.set(r, b.views[std::size_t(view)].dims[axis]); };
}

Action make(Program &p, SliceOp op) {
  int from = p.view(op.getX()), to = p.defineView(op.getResult());
  Slot lo = p.slot(op.getLo()), hi = p.slot(op.getHi());
  auto axis = std::size_t(op.getAxis());
  auto size = std::int64_t(byteSize(*dtypeOfType(op.getX().getType().getElementType())));
  return [=](Cluster &b) {
    View w = b.views[std::size_t(from)];
    std::int64_t first = std::clamp<std::int64_t>(b.index(lo), 0, w.dims[axis]);
    std::int64_t last = std::clamp<std::int64_t>(b.index(hi), 0, w.dims[axis]);
    w.data += first * w.strides[axis] * size;
    w.dims[axis] = std::max<std::int64_t>(0, last - first);
    b.views[std::size_t(to)] = std::move(w);
  };
}

Action make(Program &p, MisalignOp op) {
  int view = p.view(op.getX());
  Slot r = p.define(op.getResult());
  SmallVector<Slot> offsets = p.slotsOf(op.getOffsets());
  auto size = std::int64_t(byteSize(*dtypeOfType(op.getX().getType().getElementType())));
  return [=, bytes = std::int64_t(op.getBytes())](Cluster &b) {
    const View &w = b.views[std::size_t(view)];
    auto at = std::int64_t(reinterpret_cast<std::uintptr_t>(w.data));
    for (auto [d, s] : llvm::enumerate(offsets))
      at += b.index(s) * w.strides[d] * size;
    b.set(r, (at & (bytes - 1)) / size);
  };
}

// --- requests
// ---------------------------------------------------------------------------------------------------

namespace {

/// The lanes of one instruction of a warp.
struct Request {
  std::array<std::uintptr_t, warpSize> addresses;
  int lanes = 0;
  void add(const char *address) {
    addresses[std::size_t(lanes++)] = reinterpret_cast<std::uintptr_t>(address);
  }
  void countInto(OpCounts &counts, std::int64_t bytesPerLane) {
    if (!lanes)
      return;
    ++counts.requests;
    counts.bytes += lanes * bytesPerLane;
    // An aligned access lies in one sector.
    for (int i = 0; i < lanes; ++i)
      addresses[std::size_t(i)] /= sectorBytes;
    auto *begin = addresses.data(), *end = begin + lanes;
    if (!std::is_sorted(begin, end))
      std::sort(begin, end);
    counts.sectors += std::unique(begin, end) - begin;
    lanes = 0;
  }
};

/// A bounded access, decoded. One object serves loads and stores.
class Bounded {
public:
  Bounded(Program &p, Operation *op, const GlobalAccess &access, const Slot &tile, bool writes)
      : op(op), tile(tile), view(p.view(access.tensor)), writes(writes),
        plan(planGlobal(p.facts, access, tile.table->layout)), counts(p.count(op)), threads(p.threads),
        bounds(p, access.axes, access.lo, access.hi), isLoose(plan.cut() && op->hasAttr(looseAttr)),
        shape(shapeOf(access.tile)) {
    for (Value v : access.offsets)
      offsets.push_back(p.slot(v));
    if (access.mask)
      mask = p.slot(access.mask);
    for (int r = 0; r < tile.table->regs; ++r)
      if (plan.startsVector(r))
        vectors.push_back(plan.vector(r));
  }

  void operator()(Cluster &b) const {
    const LayoutTable &table = *tile.table;
    const View &w = b.views[std::size_t(view)];
    std::size_t rank = offsets.size();
    const char *base = w.data;
    std::array<std::int64_t, maxLayoutRank> offset{}, scale{};
    for (std::size_t d = 0; d < rank; ++d) {
      offset[d] = b.index(offsets[d]);
      scale[d] = w.strides[d] * tile.size;
      base += offset[d] * scale[d];
    }
    auto box = bounds.now(b);
    const bool isWhole = isLoose && reachesInside(w, offset, box);
    auto active = [&](std::size_t element) {
      return Box::holds(box, table, element) && (!mask || b.data(*mask)[element]);
    };
    // The address of an element; null after a fault.
    auto address = [&](std::size_t element, int thread) -> const char * {
      const char *at = base;
      for (std::size_t d = 0; d < rank; ++d) {
        std::int64_t c = table.coords[d][element], place = offset[d] + c;
        if (place < 0 || place >= w.dims[d]) {
          b.fail(op, say("thread ", thread, " accesses coordinate ", place, " of axis ", d,
                         " outside the tensor, whose length there is ", w.dims[d]));
          return nullptr;
        }
        at += c * scale[d];
      }
      return at;
    };
    auto moveElement = [&](std::size_t element, const char *at, int thread) {
      if (!b.touchGlobal(op, w.range, at, tile.size, thread, writes))
        return false;
      char *registerAt = b.data(tile) + std::int64_t(element) * tile.size;
      if (writes)
        std::memcpy(const_cast<char *>(at), registerAt, std::size_t(tile.size));
      else if (tile.dtype == DType::boolean)
        *registerAt = *at != 0;
      else
        std::memcpy(registerAt, at, std::size_t(tile.size));
      return true;
    };

    for (const SmallVector<int> &vector : vectors)
      for (int first = 0; first < threads; first += warpSize) {
        Request together;
        std::int64_t unused = 0;                  // bytes that whole vectors bring of elements that do not exist
        std::array<Request, widestAccess> single; // vectors that exist in part
        for (int t = first; t < first + warpSize; ++t) {
          if (writes && !table.owns(vector.front(), t))
            continue;
          std::size_t existing = 0;
          for (int reg : vector)
            existing += active(std::size_t(reg * threads + t));
          if (!existing)
            continue;
          if (existing < vector.size() && !plan.cut())
            return b.fail(op, say("thread ", t, " moves ", vector.size(), " elements at once, of which ",
                                  existing, " exist"));
          bool whole = existing == vector.size();
          if (isWhole && !whole) { // what does not exist becomes something that nobody should use
            const char *start = nullptr;
            for (auto [k, reg] : llvm::enumerate(vector)) {
              auto element = std::size_t(reg * threads + t);
              const char *at = active(element) ? address(element, t) : nullptr;
              if (at && !moveElement(element, at, t))
                return;
              if (!at && active(element))
                return;
              if (!at)
                std::memset(b.data(tile) + std::int64_t(element) * tile.size, tile.dtype == DType::boolean ? 1 : 0xff, std::size_t(tile.size));
              else
                start = at - std::int64_t(k) * tile.size;
            }
            if (reinterpret_cast<std::uintptr_t>(start) % std::uintptr_t(tile.size * std::int64_t(vector.size())))
              return b.fail(op, say("thread ", t, " moves a vector from an address that is not a multiple of its size"));
            together.add(start);
            unused += std::int64_t(vector.size() - existing) * tile.size;
            continue;
          }
          const char *start = nullptr;
          for (auto [k, reg] : llvm::enumerate(vector)) {
            auto element = std::size_t(reg * threads + t);
            if (!whole && !active(element))
              continue;
            const char *at = address(element, t);
            if (!at)
              return;
            if (!whole || k == 0)
              start = at;
            if (at != start + (whole ? std::int64_t(k) * tile.size : 0))
              return b.fail(op, say("thread ", t, " moves ", vector.size(),
                                    " elements at once, which are not neighbours in memory"));
            std::int64_t bytes = tile.size * (whole ? std::int64_t(vector.size()) : 1);
            if (at == start && reinterpret_cast<std::uintptr_t>(at) % std::uintptr_t(bytes))
              return b.fail(op,
                            say("thread ", t, " moves ", bytes, " bytes at once, from an address that is ",
                                reinterpret_cast<std::uintptr_t>(at) % std::uintptr_t(bytes),
                                " bytes behind a multiple of it"));
            if (!moveElement(element, at, t))
              return;
            if (!whole)
              single[k].add(at);
          }
          if (whole)
            together.add(start);
        }
        OpCounts &counted = b.counts(counts);
        together.countInto(counted, tile.size * std::int64_t(vector.size()));
        counted.bytes -= unused;
        for (Request &r : single)
          r.countInto(counted, tile.size);
      }
  }

private:
  bool reachesInside(const View &w, const std::array<std::int64_t, maxLayoutRank> &offset, ArrayRef<Box::Limits> box) const {
    SmallVector<LooseAxis> axes;
    for (std::size_t d = 0; d < shape.size(); ++d)
      axes.push_back({offset[d], 0, shape[d], w.dims[d], w.strides[d]});
    for (const Box::Limits &l : box) {
      axes[l.axis].lo = std::clamp<std::int64_t>(l.lo, 0, shape[l.axis]);
      axes[l.axis].hi = std::clamp<std::int64_t>(l.hi, 0, shape[l.axis]);
    }
    return looseVectorsInside(axes, std::size_t(plan.axis()), plan.width());
  }

  Operation *op;
  Slot tile;
  int view;
  bool writes;
  VectorPlan plan;
  int counts, threads;
  Box bounds;
  bool isLoose;
  SmallVector<std::int64_t> shape;
  SmallVector<Slot> offsets;
  std::optional<Slot> mask;
  std::vector<SmallVector<int>> vectors;
};

} // namespace

// --- ops
// --------------------------------------------------------------------------------------------------------

Action make(Program &p, GlobalLoadOp op) {
  Slot r = p.define(op.getResult());
  std::vector<char> pad = elementBytes(op.getPad(), r.dtype);
  return [=, access = Bounded(p, op, GlobalAccess(op), r, false)](Cluster &b) {
    for (std::int64_t i = 0; i < r.count; ++i)
      std::memcpy(b.data(r) + i * r.size, pad.data(), pad.size());
    access(b);
  };
}

Action make(Program &p, GlobalStoreOp op) {
  Slot value = p.slot(op.getValue());
  return [=, op = op.getOperation(), access = Bounded(p, op, GlobalAccess(op), value, true)](Cluster &b) {
    if (copiesAgree(b, op, value))
      access(b);
  };
}

Action make(Program &p, GlobalGatherOp op) {
  Slot r = p.define(op.getResult()), mask = p.slot(op.getMask());
  SmallVector<Slot> indices = p.slotsOf(op.getIndices());
  int view = p.view(op.getX()), counts = p.count(op);
  for (const Slot &s : indices)
    if (s.table && s.table != r.table)
      return refuse(op, "indices and result have different layouts");
  if (mask.table != r.table)
    return refuse(op, "mask and result have different layouts");
  return [=, threads = p.threads, op = op.getOperation()](Cluster &b) {
    const View &w = b.views[std::size_t(view)];
    std::memset(b.data(r), 0, std::size_t(r.count * r.size));
    auto element = [&](std::int64_t n, int thread) -> const char * {
      const char *at = w.data;
      for (auto [d, s] : llvm::enumerate(indices)) {
        auto i = reinterpret_cast<const std::int64_t *>(b.data(s))[s.table ? n : 0];
        if (i < 0 || i >= w.dims[d]) {
          b.fail(op, say("thread ", thread, " accesses coordinate ", i, " of axis ", d,
                         " outside the tensor, whose length there is ", w.dims[d]));
          return nullptr;
        }
        at += i * w.strides[d] * r.size;
      }
      return at;
    };
    // A scalar is read by every thread.
    std::int64_t all = std::max<std::int64_t>(r.count, threads);
    for (std::int64_t first = 0; first < all; first += warpSize) {
      Request request;
      for (std::int64_t i = first; i < first + warpSize; ++i) {
        std::int64_t n = r.table ? i : 0;
        int thread = int(i % threads);
        if (!b.data(mask)[n])
          continue;
        const char *at = element(n, thread);
        if (!at || !b.touchGlobal(op, w.range, at, r.size, thread, false))
          return;
        std::memcpy(b.data(r) + n * r.size, at, std::size_t(r.size));
        if (r.dtype == DType::boolean)
          b.data(r)[n] = *at != 0;
        request.add(at);
      }
      request.countInto(b.counts(counts), r.size);
    }
  };
}

} // namespace sectile::tgpu::exec
