// SPDX-License-Identifier: Apache-2.0
/// \file Roles, pipes with their mbarriers, the copies of the TMA unit, persistent blocks.
///
/// The producer and the consumers take turns: the preferred one goes on until it must wait, the other until
/// it has done something that may end the wait. When both wait, the kernel never ends. A copy arrives at
/// once; too early or too late shows as a wait for a phase that does not come, as bytes that nobody
/// announced, or as a slot that is filled while somebody holds or reads it. Of a kernel with pairs both blocks run so, each with its
/// memory and its pipes; halves of tiles arrive in both, and releases are counted by both.
#include "ir/InterpKernels.h"
#include "ir/StripStores.h"
#include "ir/base/LaunchExpr.h"
#include "ir/exec/Program.h"

#include <algorithm>
#include <array>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

// --- roles
// ------------------------------------------------------------------------------------------------------

void Cluster::block(Operation *op, std::string what) {
  if (!running)
    return fail(op, "waits outside of all roles: " + what);
  running->waitsAt = op;
  running->waitsFor = std::move(what);
}

void Cluster::runRoles(Operation *op, int producer, int consumer, int end) {
  struct Runner {
    Cluster *block;
    Role role;
    bool done() const { return role.next >= role.end; }
  };
  SmallVector<Runner, 4> runners{{this, {"the producer", producer, consumer, nullptr, {}}},
                                 {this, {"the consumers", consumer, end, nullptr, {}}}};
  if (peer) {
    peer->runActions(producer - 1);
    runners.push_back({peer, {"the other block's producer", producer, consumer, nullptr, {}}});
    runners.push_back({peer, {"the other block's consumers", consumer, end, nullptr, {}}});
  }
  if (consumersFirst)
    std::reverse(runners.begin(), runners.end());
  auto done = [&] { return progress + (peer ? peer->progress : 0); };
  auto go = [&](Runner &r, bool alone) {
    Cluster &b = *r.block;
    b.running = &r.role;
    r.role.waitsAt = nullptr;
    for (std::int64_t seen = done(); !r.done() && !failed() && (alone || done() == seen);) {
      b.next = r.role.next + 1;
      program.actions[std::size_t(r.role.next)](b);
      if (r.role.waitsAt)
        return;
      r.role.next = b.next;
    }
  };
  auto places = [&] {
    SmallVector<std::int64_t, 5> at{done()};
    for (const Runner &r : runners)
      at.push_back(r.role.next);
    return at;
  };
  while (!failed() && !llvm::all_of(runners, [](const Runner &r) { return r.done(); })) {
    const auto before = places();
    for (auto [i, r] : llvm::enumerate(runners))
      if (!failed())
        go(r, i == 0);
    if (failed() || before != places())
      continue;
    std::string text = "deadlock";
    Operation *at = op;
    for (const auto &[block, r] : runners) {
      text += say("; ", r.name, r.waitsAt ? " wait: " : " have ended");
      if (!r.waitsAt)
        continue;
      at = r.waitsAt;
      text += ExecFault{r.waitsAt, r.waitsFor}.text();
    }
    fail(at, text);
  }
  for (Cluster *b : {this, peer}) {
    if (!b)
      continue;
    b->running = nullptr;
    b->next = end;
    for (auto [n, pipe] : llvm::enumerate(b->pipes))
      if (pipe.fills != pipe.waits || llvm::any_of(pipe.slots, [](const PipeSlot &s) { return s.acquired; }))
        fail(op, say("a block ends after ", pipe.fills, " slots of pipe ", n, " were filled, ", pipe.waits,
                     " awaited and ", pipe.releases, " released"));
  }
}

// --- pipes
// ------------------------------------------------------------------------------------------------------

static std::string describe(const char *name, std::int64_t slot, const Mbarrier &b, std::int64_t parity) {
  return say("for the phase of parity ", parity, " of '", name, "' of slot ", slot, ", which is in phase ",
             b.phase, ", ", b.pending, " of ", b.expected, " arrivals and ", b.bytes, " bytes missing");
}

Action make(Program &p, PipeCreateOp op) {
  PipeType type = op.getPipe().getType();
  if (!op.getOffset() || !op.getBarriers())
    return refuse(op, "the pipe has no place in shared memory");
  const int number = int(p.pipes.size());
  p.pipes[op.getPipe()] = {std::int64_t(*op.getOffset()), {}, p.numBuffers + 1, number};
  p.numBuffers += int(type.getBuffers().size());
  return [=, stages = std::size_t(type.getStages()), buffers = type.getBuffers().size(),
          full = std::int64_t(op.getFull()), empty = std::int64_t(op.getEmpty())](Cluster &b) {
    PipeState state;
    PipeSlot slot;
    slot.full.expected = slot.full.pending = full;
    slot.empty.expected = slot.empty.pending = empty;
    slot.filled.assign(buffers, 0);
    state.slots.assign(stages, slot);
    b.pipes[std::size_t(number)] = std::move(state);
  };
}

Action make(Program &p, PipeAcquireOp op) {
  auto create = op.getPipe().getDefiningOp<PipeCreateOp>();
  if (!create)
    return refuse(op, "the pipe is not created here");
  return [=, pipe = std::size_t(p.pipes.lookup(op.getPipe()).place), bytes = std::int64_t(op.getBytes()),
          free = std::int64_t(create.getFree()), op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[pipe];
    const auto stages = std::int64_t(s.slots.size()), number = s.fills % stages;
    const std::int64_t parity = ((s.fills / stages) & 1) ^ free;
    PipeSlot &slot = s.slots[std::size_t(number)];
    if (slot.acquired)
      return b.fail(op, say("slot ", number, " is acquired a second time"));
    if (!slot.empty.passed(parity))
      return b.block(op, describe("empty", number, slot.empty, parity));
    if (s.fills - s.releases >= stages)
      return b.fail(op, say("slot ", number, " is acquired before the consumers have released it"));
    slot.acquired = true; // halves of the other block may be here already
    slot.uncovered = slot.unseen = false;
    if (bytes) {
      slot.full.bytes += bytes;
      --slot.full.pending;
      slot.full.settle();
    }
    ++b.progress;
  };
}

Action make(Program &p, PipeCommitOp op) {
  return [pipe = std::size_t(p.pipes.lookup(op.getPipe()).place), op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[pipe];
    PipeSlot &slot = s.slots[std::size_t(s.fills % std::int64_t(s.slots.size()))];
    if (!slot.acquired)
      return b.fail(op, say("slot ", s.fills % std::int64_t(s.slots.size()), " was not acquired"));
    if (slot.uncovered)
      return b.fail(op, say("slot ", s.fills % std::int64_t(s.slots.size()), " has copies of threads with no async_arrive behind them"));
    slot.acquired = false;
    ++s.fills;
    ++b.progress;
  };
}

Action make(Program &p, PipeWaitOp op) {
  PipeType type = op.getPipe().getType();
  BufferAt pipe = p.pipes.lookup(op.getPipe());
  const auto first = std::size_t(p.numPlaces);
  SmallVector<std::int64_t> offsets;
  for (auto [n, buffer] : llvm::enumerate(op.getBuffers())) {
    p.buffers[buffer] = {0, type.getBuffers()[n], pipe.number + int(n), p.numPlaces++};
    offsets.push_back(pipe.offset + type.bufferOffset(unsigned(n)));
  }
  return [=, bytes = type.slotBytes(), op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[std::size_t(pipe.place)];
    const auto stages = std::int64_t(s.slots.size()), number = s.waits % stages;
    const std::int64_t parity = (s.waits / stages) & 1;
    PipeSlot &slot = s.slots[std::size_t(number)];
    if (!slot.full.passed(parity))
      return b.block(op, describe("full", number, slot.full, parity));
    if (slot.held)
      return b.fail(op, say("slot ", number, " is awaited while it is held"));
    slot.held = true;
    for (auto [n, offset] : llvm::enumerate(offsets))
      b.places[first + n] = {pipe.place, s.waits, n, offset + number * bytes};
    ++s.waits;
    ++b.progress;
  };
}

Action make(Program &p, PipeReleaseOp op) {
  BufferAt pipe = p.pipes.lookup(op.getPipe());
  const bool byUnit = llvm::any_of(op.getPipe().getUsers(), [](Operation *user) { return isa<TmaLoadOp>(user); });
  return [=, bytes = op.getPipe().getType().slotBytes(), keep = std::int64_t(op.getKeep()), pair = op.getPair(), warps = p.warps,
          op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[std::size_t(pipe.place)];
    if (s.waits - s.releases <= keep)
      return;
    const std::int64_t number = s.releases % std::int64_t(s.slots.size());
    PipeSlot &slot = s.slots[std::size_t(number)];
    const std::int64_t begin = pipe.offset + number * bytes;
    if (const ProductGroup *reader = b.readerOf(begin, begin + bytes))
      return b.fail(op, say("slot ", number, " is released while a product under way reads it: ",
                            ExecFault{reader->op, {}}.text()));
    if (slot.read && byUnit)
      return b.fail(op, say("slot ", number, ", which threads read, is released without a fence_async behind the reads"));
    slot.read = false;
    const std::int64_t round = s.releases / std::int64_t(s.slots.size());
    for (Cluster *to : {&b, pair ? b.peer : nullptr}) {
      if (!to)
        continue;
      Mbarrier &empty = to->pipes[std::size_t(pipe.place)].slots[std::size_t(number)].empty;
      const std::int64_t phase = empty.phase;
      if (pair && phase != round)
        return b.fail(op, say("warps arrive for round ", round, " at 'empty' of slot ", number, " of ",
                              to == &b ? "this block" : "the other block", ", which is in phase ", phase));
      for (int w = 0; w < warps; ++w) {
        if (empty.phase != phase)
          return b.fail(op, say("'empty' of slot ", number, " is complete with the arrivals of ", w, " of ",
                                warps, " consumer warps"));
        --empty.pending;
        empty.settle();
      }
    }
    slot.filled.assign(slot.filled.size(), 0);
    slot.held = false;
    ++s.releases;
    ++b.progress;
  };
}

std::optional<BufferAt> Cluster::placed(Operation *op, const BufferAt &buffer) {
  if (buffer.place < 0)
    return buffer;
  const PipePlace &place = places[std::size_t(buffer.place)];
  if (place.pipe < 0) {
    fail(op, "uses a buffer of a pipe before any wait for a slot");
    return std::nullopt;
  }
  const PipeState &pipe = pipes[std::size_t(place.pipe)];
  const auto number = place.wait % std::int64_t(pipe.slots.size());
  if (place.wait < pipe.releases) {
    fail(op, say("uses slot ", number, " after it was released"));
    return std::nullopt;
  }
  if (const std::uint8_t filled = pipe.slots[std::size_t(number)].filled[place.buffer]; filled != PipeSlot::whole) {
    fail(op, say("uses buffer ", place.buffer, " of slot ", number, ", which ", filled ? "one block alone" : "nothing", " has filled"));
    return std::nullopt;
  }
  BufferAt here = buffer;
  here.offset += place.offset;
  here.place = -1;
  return here;
}

// --- the TMA unit
// -----------------------------------------------------------------------------------------------

// It is ordered with the threads of the block by no barrier, so it counts as a thread of another block.
bool Cluster::touchByTma(Operation *op, int range, const char *at, std::int64_t bytes, bool write) {
  GlobalRange &r = run.ranges[std::size_t(range)];
  auto first = std::int64_t(reinterpret_cast<std::uintptr_t>(at) - r.begin);
  for (std::int64_t i = first / r.grain; i * r.grain < first + bytes; ++i) {
    Cell &c = r.cells[std::size_t(i)];
      if (c.writeAcross == across) {
      fail(op, say("the TMA unit ", write ? "writes" : "reads",
                   " an element of global memory that this block has written: nothing orders the two"));
      return false;
    }
    if (!write)
      continue;
    c.writeEpoch = epoch;
    c.writeAcross = across;
    c.writer = std::uint16_t(program.threads);
  }
  return true;
}

bool Cluster::fillShared(Operation *op, const BufferAt &buffer, std::int64_t first, std::int64_t bytes) {
  const std::int64_t begin = buffer.offset + first, end = begin + bytes;
  if (end > program.sharedBytes) {
    fail(op, say("fills bytes ", begin, " to ", end - 1, " of shared memory; the block has ",
                 program.sharedBytes));
    return false;
  }
  if (const ProductGroup *reader = readerOf(begin, end)) {
    fail(op, say("fills bytes that a product under way reads: ", ExecFault{reader->op, {}}.text()));
    return false;
  }
  for (std::int64_t at = begin; at < end; at += program.sharedGrain) {
    Cell &c = cellAt(shared.data() + at);
    c = {};
    c.writeEpoch = firstEpoch;
    c.writeAcross = firstAcross;
    c.buffer = std::uint16_t(buffer.number);
  }
  return true;
}

namespace {

constexpr std::uintptr_t mapAlignment = 16; ///< of addresses and strides (driver API, cuTensorMapEncodeTiled)

/// What the hardware sees of a tensor through a map.
class Mapped {
public:
  /// Not usable after a diagnostic.
  /// `byUnit`: the TMA unit goes by it; threads go anywhere.
  Mapped(Program &p, Operation *op, Value x, ValueRange offsetValues, MapAttr map, bool byUnit = true)
      : op(op), byUnit(byUnit), view(p.view(x)),
        size(std::int64_t(byteSize(*dtypeOfType(cast<tileir::TensorType>(x.getType()).getElementType())))),
        order(map.getOrder()), offsets(p.slotsOf(offsetValues)) {
    for (Attribute limit : map.getLimits())
      if (auto e = LaunchExpr::parse(std::string_view(cast<StringAttr>(limit).getValue())))
        limits.push_back(*e);
  }

  /// The tensor of this run. False after a fault.
  struct Now {
    const View *x;
    std::array<std::int64_t, maxRank> first{}, bound{}; ///< per axis
    /// The element at `c` from the first one; null: it does not exist.
    char *at(const std::array<std::int64_t, maxRank> &c, std::int64_t size) const {
      char *at = x->data;
      for (std::size_t d = 0; d < x->dims.size(); ++d) {
        const std::int64_t place = first[d] + c[d];
        if (place < 0 || place >= bound[d])
          return nullptr;
        at += place * x->strides[d] * size;
      }
      return at;
    }
  };
  std::optional<Now> now(Cluster &b) const {
    Now n{&b.views[std::size_t(view)]};
    const View &x = *n.x;
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      n.first[d] = b.index(offsets[d]);
      n.bound[d] = std::min(limits[d].evaluate(b.run.args), x.dims[d]);
    }
    if (llvm::is_contained(x.dims, 0))
      return n; // nothing exists
    auto bad = [&](std::uintptr_t bytes) { return byUnit && bytes % mapAlignment != 0; };
    if (bad(reinterpret_cast<std::uintptr_t>(x.data))) {
      b.fail(op, "the tensor starts at no multiple of 16 bytes");
      return std::nullopt;
    }
    if (const std::int64_t first = n.first[std::size_t(order[0])]; bad(std::uintptr_t(first * size))) {
      b.fail(op, say("the box starts at element ", first, " of axis ", order[0], ", which is no multiple of 16 bytes"));
      return std::nullopt;
    }
    for (auto [n, axis] : llvm::enumerate(order)) {
      const std::int64_t stride = x.strides[std::size_t(axis)];
      if (x.dims[std::size_t(axis)] > 1 && (n ? bad(std::uintptr_t(stride * size)) : stride != 1)) {
        b.fail(op, say("axis ", axis, " has stride ", stride, ", which a tensor map cannot have"));
        return std::nullopt;
      }
    }
    return n;
  }

  Operation *op;
  bool byUnit;
  int view;
  std::int64_t size;
  SmallVector<std::int64_t> order;
  SmallVector<Slot> offsets;
  SmallVector<LaunchExpr> limits;
};

/// The sectors of one copy, whose elements come in ascending order.
struct Sectors {
  std::uintptr_t last = 0;
  std::int64_t count = 0;
  void add(const char *at) {
    const std::uintptr_t sector = reinterpret_cast<std::uintptr_t>(at) / sectorBytes;
    count += sector != last;
    last = sector;
  }
};

} // namespace

Action make(Program &p, TmaLoadOp op) {
  BufferAt pipe = p.pipes.lookup(op.getPipe());
  PipeType type = op.getPipe().getType();
  const std::size_t index = op.getIndex();
  const BufferAt buffer{pipe.offset + type.bufferOffset(unsigned(index)), type.getBuffers()[index],
                        pipe.number + int(index)};
  const Mapped mapped(p, op, op.getX(), op.getOffsets(), op.getMap());
  const SmallVector<std::int64_t> box(op.getMap().getBox());
  // Rows are numbered in the order of the tensor's axes; the hardware goes by the map's.
  SmallVector<std::size_t> axes; // of rows, the slowest first
  SmallVector<std::int64_t> lengths;
  for (std::size_t axis = 0; axis < mapped.order.size(); ++axis) {
    const auto n = std::size_t(llvm::find(mapped.order, std::int64_t(axis)) - mapped.order.begin());
    if (n == 0)
      continue;
    axes.push_back(axis);
    lengths.push_back(box[n]);
  }
  std::int64_t before = -1;
  for (std::size_t n = mapped.order.size(); n-- > 1;) {
    if (box[n] == 1)
      continue;
    if (mapped.order[n] < before)
      return refuse(op, "the map has axes of rows in another order than the tensor");
    before = mapped.order[n];
  }
  const std::int64_t allPanels = buffer.type.getShape()[0], allRows = buffer.type.getShape()[1], columns = buffer.type.getShape()[2];
  const auto [panels, rows] = op.panelsAndRows();
  const std::int64_t mask = std::int64_t(op.getMulticast().value_or(0)), rowBytes = buffer.type.bytes() / allPanels / allRows;
  return [=, panels = panels, rows = rows, places = elementPlaces(buffer.type), counts = p.count(op), stepBytes = type.slotBytes(),
          tf32 = op.getMap().getTf32(), op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[std::size_t(pipe.place)];
    const auto stages = std::int64_t(s.slots.size()), number = s.fills % stages;
    if (!s.slots[std::size_t(number)].acquired)
      return b.fail(op, say("slot ", number, " was not acquired"));
    BufferAt here = buffer;
    here.offset += number * stepBytes;
    auto x = mapped.now(b);
    if (!x)
      return;
    // This block's part of the buffer, and the blocks that get it.
    const std::int64_t firstPanel = panels < allPanels ? b.rank * panels : 0, firstRow = rows < allRows ? b.rank * rows : 0;
    const std::uint8_t part = mask ? std::uint8_t(1 << b.rank) : PipeSlot::whole;
    SmallVector<Cluster *, 2> blocks;
    for (Cluster *block : {&b, b.peer})
      if (block && (mask ? mask >> block->rank & 1 : block == &b))
        blocks.push_back(block);
    for (Cluster *block : blocks) {
      PipeState &there = block->pipes[std::size_t(pipe.place)];
      PipeSlot &slot = there.slots[std::size_t(number)];
      const char *whose = block == &b ? "" : " of the other block";
      if (slot.filled[index] & part)
        return b.fail(op, say("buffer ", index, " of slot ", number, whose, " is filled a second time"));
      if (mask && (s.fills - there.releases >= stages || slot.full.phase != s.fills / stages))
        return b.fail(op, say("slot ", number, whose, " is filled before the consumers have released it"));
      for (std::int64_t panel = firstPanel; panel < firstPanel + panels; ++panel)
        if (!block->fillShared(op, here, (panel * allRows + firstRow) * rowBytes, rows * rowBytes))
          return;
    }
    const auto fastest = std::size_t(mapped.order[0]);
    OpCounts &counted = b.counts(counts);
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      Sectors sectors;
      for (std::int64_t row = 0; row < rows; ++row) {
        std::array<std::int64_t, maxRank> c{};
        std::int64_t rest = row;
        for (std::size_t n = axes.size(); n-- > 0; rest /= lengths[n])
          c[axes[n]] = rest % lengths[n];
        for (std::int64_t column = 0; column < columns; ++column) {
          c[fastest] = panel * columns + column;
          const std::int64_t place = ((firstPanel + panel) * allRows + firstRow + row) * columns + column;
          const char *from = x->at(c, mapped.size);
          if (from && !b.touchByTma(op, x->x->range, from, mapped.size, false))
            return;
          for (Cluster *block : blocks) {
            char *to = block->shared.data() + here.offset + places[std::size_t(place)];
            if (!from) {
              std::memset(to, 0, std::size_t(mapped.size));
              continue;
            }
            std::memcpy(to, from, std::size_t(mapped.size));
            if (tf32)
              tileir::interp::tf32Kernel(tileir::interp::Isa::base)(to, to, 1);
          }
          if (!from)
            continue;
          sectors.add(from);
          counted.bytes += mapped.size;
        }
      }
      counted.sectors += sectors.count;
    }
    counted.requests += panels;
    const std::int64_t bytes = panels * rows * rowBytes;
    for (Cluster *block : blocks) {
      PipeState &there = block->pipes[std::size_t(pipe.place)];
      PipeSlot &slot = there.slots[std::size_t(number)];
      slot.filled[index] |= part;
      // They may come before the other block's producer has announced them.
      const bool announced = there.fills > s.fills || slot.acquired;
      if (announced && slot.full.bytes < bytes)
        return b.fail(op, say(bytes, " bytes arrive at 'full' of slot ", number,
                              ", which waits for ", slot.full.bytes));
      slot.full.bytes -= bytes;
      slot.full.settle();
    }
    ++b.progress;
  };
}

Action make(Program &p, BulkStoreOp op) {
  Slot value = p.slot(op.getValue());
  const LayoutTable &table = *value.table;
  const BufferAt staging = p.buffers.lookup(op.getStaging());
  const bool byUnit = !op->hasAttr(byThreadsAttr);
  const Mapped mapped(p, op, op.getX(), op.getOffsets(), op.getMap(), byUnit);
  const std::int64_t columns = op.getMap().getBox()[0], rowsPerCopy = llvm::product_of(op.getMap().getBox().drop_front());
  const llvm::SmallVector<int64_t> rowAxes = op.rowAxes();
  const auto rank = std::int64_t(mapped.order.size());
  for (std::int64_t i = 0; i < rank; ++i)
    if (mapped.order[std::size_t(i)] != rank - 1 - i)
      return refuse(op, "the axes of the map are not those of the tile from the last to the first");
  if (p.blocks > 1 || staging.type.getShape()[0] != p.warps)
    return refuse(op, "not every warp has a part of the staging buffer");
  struct Element {
    std::int64_t row, column, number;
  };
  struct Strip {
    int warp = -1;
    std::vector<Element> elements;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Strip> strips;
  for (int r = 0; r < table.regs; ++r)
    for (int t = 0; t < p.threads; ++t) {
      if (!table.owns(r, t))
        continue;
      const auto n = std::size_t(r) * std::size_t(p.threads) + std::size_t(t);
      const std::int64_t row = table.coords[0][n], column = table.coords[1][n];
      Strip &strip = strips[{row / rowsPerCopy, column / columns}];
      if (strip.warp >= 0 && strip.warp != t / warpSize)
        return refuse(op, "two warps hold parts of one strip");
      strip.warp = t / warpSize;
      strip.elements.push_back({row, column, std::int64_t(n)});
    }
  std::vector<Strip> copies;
  for (auto &[place, strip] : strips) {
    llvm::sort(strip.elements, [](const Element &a, const Element &b) {
      return std::pair(a.row, a.column) < std::pair(b.row, b.column);
    });
    if (std::int64_t(strip.elements.size()) != rowsPerCopy * columns)
      return refuse(op, "the tile is no whole number of strips");
    copies.push_back(std::move(strip));
  }
  return [=, counts = p.count(op), warps = p.warps, op = op.getOperation()](Cluster &b) {
    if (!copiesAgree(b, op, value))
      return;
    const std::int64_t part = staging.type.bytes() / warps;
    for (std::int64_t at = 0; at < staging.type.bytes(); at += widestAccess)
      if (!b.touchShared(op, staging, staging.offset + at, widestAccess, int(at / part) * warpSize, true))
        return;
    auto x = mapped.now(b);
    if (!x)
      return;
    // The unit writes 16 bytes whole, also those that a row ends in.
    const auto last = std::size_t(rank - 1);
    if (byUnit && x->bound[last] > 0 && x->bound[last] * mapped.size % std::int64_t(mapAlignment))
      return b.fail(op, say("rows of ", x->bound[last], " elements end inside 16 bytes, which are written whole"));
    OpCounts &counted = b.counts(counts);
    for (const Strip &strip : copies) {
      Sectors sectors;
      for (const Element &e : strip.elements) {
        if (!byUnit && e.column % std::min<std::int64_t>(columns, warpSize) == 0)
          sectors.last = 0; // the next instruction of the warp
        std::array<std::int64_t, maxRank> c{};
        for (std::int64_t row = e.row, axis = rank - 1; axis-- > 0; row /= rowAxes[std::size_t(axis)])
          c[std::size_t(axis)] = row % rowAxes[std::size_t(axis)];
        c[std::size_t(rank - 1)] = e.column;
        char *to = x->at(c, mapped.size);
        if (!to)
          continue;
        if (!b.touchByTma(op, x->x->range, to, mapped.size, true))
          return;
        std::memcpy(to, b.data(value) + e.number * value.size, std::size_t(value.size));
        sectors.add(to);
        counted.bytes += value.size;
      }
      counted.requests += byUnit ? 1 : rowsPerCopy * columns / warpSize;
      counted.sectors += sectors.count;
    }
  };
}

// --- persistent blocks
// ------------------------------------------------------------------------------------------

std::vector<std::int64_t> numberInOrder(std::int64_t place, ArrayRef<std::int64_t> programs,
                                        std::int64_t group) {
  std::vector<std::int64_t> number(programs.size());
  std::size_t d = programs.size();
  if (d >= 2 && group > 1) {
    const std::int64_t rows = programs[d - 2], columns = programs[d - 1];
    const std::int64_t inPlane = place % (rows * columns), first = inPlane / (group * columns) * group;
    const std::int64_t taken = std::min(group, rows - first), rest = inPlane % (group * columns);
    number[d - 2] = first + rest % taken;
    number[d - 1] = first / group % 2 ? columns - 1 - rest / taken : rest / taken;
    place /= rows * columns;
    d -= 2;
  }
  for (; d-- > 0; place /= programs[d])
    number[d] = place % programs[d];
  return number;
}

std::int64_t placeInOrder(ArrayRef<std::int64_t> number, ArrayRef<std::int64_t> programs,
                          std::int64_t group) {
  const std::size_t rank = programs.size();
  const bool grouped = rank >= 2 && group > 1;
  std::int64_t place = 0;
  for (std::size_t d = 0; d < (grouped ? rank - 2 : rank); ++d)
    place = place * programs[d] + number[d];
  if (!grouped)
    return place;
  const std::int64_t rows = programs[rank - 2], columns = programs[rank - 1];
  const std::int64_t first = number[rank - 2] / group * group, taken = std::min(group, rows - first);
  const std::int64_t column = first / group % 2 ? columns - 1 - number[rank - 1] : number[rank - 1];
  return place * rows * columns + first * columns + column * taken + number[rank - 2] - first;
}

Action make(Program &p, BlockNumberOp op) {
  if (!p.persistent)
    return refuse(op, "the kernel is not persistent");
  Slot number = p.define(op.getNumber()), count = p.define(op.getCount());
  return [=](Cluster &b) {
    b.set(number, b.blockNumber);
    b.set(count, b.blockCount);
  };
}

Action make(Program &p, PairRankOp op) {
  if (!p.pairs)
    return refuse(op, "the kernel has no pairs of blocks");
  return [rank = p.define(op.getRank())](Cluster &b) { b.set(rank, std::int64_t(b.rank)); };
}

/// Programs along each axis.
static SmallVector<std::int64_t> programsOf(const View &x, ArrayRef<std::int64_t> sizes) {
  SmallVector<std::int64_t> programs;
  for (auto [d, size] : llvm::enumerate(sizes))
    programs.push_back((x.dims[d] + size - 1) / size);
  return programs;
}

Action make(Program &p, ProgramsOp op) {
  p.programs = op;
  Slot count = p.define(op.getCount());
  return [=, view = std::size_t(p.view(op.getX())), sizes = op.getSizes()](Cluster &b) {
    b.set(count, llvm::product_of(programsOf(b.views[view], sizes)));
  };
}

Action make(Program &p, ProgramOp op) {
  p.group = std::int64_t(op.getGroup());
  Slot place = p.slot(op.getNumber());
  SmallVector<Slot> offsets;
  for (Value v : op.getOffsets())
    offsets.push_back(p.define(v));
  return [=, view = std::size_t(p.view(op.getX())), sizes = op.getSizes(), group = p.group](Cluster &b) {
    std::vector<std::int64_t> number = numberInOrder(b.index(place), programsOf(b.views[view], sizes), group);
    for (auto [d, s] : llvm::enumerate(offsets))
      b.set(s, number[d] * sizes[d]);
  };
}

} // namespace sectile::tgpu::exec
