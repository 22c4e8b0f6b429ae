// SPDX-License-Identifier: Apache-2.0
/// \file Copies of the producer's threads into slots of pipes (PTX ISA, cp.async), and their arrivals.
///
/// A copy arrives at once, as one of the TMA unit does: too early or too late shows as a wait for a phase that does not come.
/// What it brings is a piece of memory that starts at an aligned place: a piece may be cut at its end, not at its start.
#include "ir/CopyPlan.h"
#include "ir/base/LaunchExpr.h"
#include "ir/exec/Program.h"

#include <set>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

Action make(Program &p, AsyncLoadOp op) {
  const BufferAt pipe = p.pipes.lookup(op.getPipe());
  PipeType type = op.getPipe().getType();
  const std::size_t index = op.getIndex();
  const BufferAt buffer{pipe.offset + type.bufferOffset(unsigned(index)), type.getBuffers()[index], pipe.number + int(index)};
  MapAttr map = op.getMap();
  const auto rank = map.getOrder().size();
  const auto fastest = std::size_t(map.getOrder()[0]);
  SmallVector<std::int64_t> lengths(rank, 1);
  for (auto [axis, length] : llvm::zip_equal(map.getOrder(), map.getBox()))
    lengths[std::size_t(axis)] = length;
  SmallVector<LaunchExpr> limits;
  for (Attribute limit : map.getLimits())
    if (auto e = LaunchExpr::parse(std::string_view(cast<StringAttr>(limit).getValue())))
      limits.push_back(*e);
  if (limits.size() != rank || p.blocks > 1 || !CopyPlan::make(map, buffer.type, std::int64_t(op.getCopyBytes())))
    return refuse(op, "the threads of the producer cannot share the copies");
  const std::int64_t size = std::int64_t(byteSize(*dtypeOfType(buffer.type.getElementType())));
  const std::int64_t panels = buffer.type.getShape()[0], rows = buffer.type.getShape()[1], columns = buffer.type.getShape()[2];
  const std::int64_t together = std::int64_t(op.getCopyBytes()) / size;
  return [=, view = std::size_t(p.view(op.getX())), offsets = p.slotsOf(op.getOffsets()), places = elementPlaces(buffer.type),
          counts = p.count(op), slotBytes = type.slotBytes(), op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[std::size_t(pipe.place)];
    const std::int64_t number = s.fills % std::int64_t(s.slots.size());
    PipeSlot &slot = s.slots[std::size_t(number)];
    if (!slot.acquired)
      return b.fail(op, say("slot ", number, " was not acquired"));
    if (slot.filled[index])
      return b.fail(op, say("buffer ", index, " of slot ", number, " is filled a second time"));
    BufferAt here = buffer;
    here.offset += number * slotBytes;
    if (!b.fillShared(op, here, 0, here.type.bytes()))
      return;
    const View &x = b.views[view];
    SmallVector<std::int64_t> first, bound;
    for (std::size_t d = 0; d < rank; ++d) {
      first.push_back(b.index(offsets[d]));
      bound.push_back(std::min(limits[d].evaluate(b.run.args), x.dims[d]));
    }
    OpCounts &counted = b.counts(counts);
    std::set<std::uintptr_t> sectors; // of the copies of one warp
    std::int64_t copies = 0;
    auto endRequest = [&] {
      counted.requests += copies > 0;
      counted.sectors += std::int64_t(sectors.size());
      sectors.clear();
      copies = 0;
    };
    for (std::int64_t panel = 0; panel < panels; ++panel)
      for (std::int64_t row = 0; row < rows; ++row) {
        // The row's first element of the tensor, and whether the row exists.
        std::int64_t rest = row, at = 0;
        bool exists = true;
        for (std::size_t d = rank; d-- > 0;) {
          if (d == fastest)
            continue;
          const std::int64_t place = first[d] + rest % lengths[d];
          rest /= lengths[d];
          exists = exists && place >= 0 && place < bound[d];
          at += place * x.strides[d];
        }
        for (std::int64_t column = 0; column < columns; column += together) {
          const std::int64_t begin = first[fastest] + panel * columns + column;
          char *to = b.shared.data() + here.offset + places[std::size_t((panel * rows + row) * columns + column)];
          std::memset(to, 0, std::size_t(together * size));
          const std::int64_t end = std::min(begin + together, bound[fastest]);
          if (exists && end > 0 && end > begin) {
            if (x.strides[fastest] != 1 && x.dims[fastest] > 1)
              return b.fail(op, say("axis ", fastest, " has stride ", x.strides[fastest], ", and copies take neighbours"));
            const char *from = x.data + (at + begin) * size;
            if (begin < 0 || reinterpret_cast<std::uintptr_t>(from) % std::uintptr_t(together * size))
              return b.fail(op, say("a copy of ", together * size, " bytes starts at element ", begin,
                                    " of its row, which is no multiple of so many bytes in memory"));
            const std::int64_t bytes = (end - begin) * size;
            if (!b.touchByTma(op, x.range, from, bytes, false))
              return;
            std::memcpy(to, from, std::size_t(bytes));
            counted.bytes += bytes;
            ++copies;
            for (std::int64_t byte = 0; byte < bytes; byte += size)
              sectors.insert((reinterpret_cast<std::uintptr_t>(from) + std::uintptr_t(byte)) / sectorBytes);
          }
          if (((row * columns + column) / together + 1) % warpSize == 0)
            endRequest();
        }
        if (row == rows - 1)
          endRequest();
      }
    slot.filled[index] = PipeSlot::whole;
    slot.uncovered = slot.unseen = true;
    ++b.progress;
  };
}

Action make(Program &p, AsyncArriveOp op) {
  auto launch = p.func->getAttrOfType<LaunchAttr>(launchAttr);
  return [pipe = std::size_t(p.pipes.lookup(op.getPipe()).place), threads = launch.getProducers() * warpSize,
          op = op.getOperation()](Cluster &b) {
    PipeState &s = b.pipes[pipe];
    const std::int64_t number = s.fills % std::int64_t(s.slots.size());
    PipeSlot &slot = s.slots[std::size_t(number)];
    if (!slot.acquired)
      return b.fail(op, say("slot ", number, " was not acquired"));
    if (slot.full.pending < threads)
      return b.fail(op, say(threads, " threads arrive at 'full' of slot ", number, ", which waits for ", slot.full.pending));
    slot.uncovered = false;
    slot.full.pending -= threads;
    slot.full.settle();
    ++b.progress;
  };
}

void Cluster::fenceSlots() {
  for (PipeState &pipe : pipes)
    for (PipeSlot &slot : pipe.slots) {
      slot.unseen = slot.unseen && !slot.held;
      slot.read = false;
    }
}

void Cluster::noteRead(const BufferAt &buffer) {
  if (buffer.place < 0)
    return;
  const PipePlace &place = places[std::size_t(buffer.place)];
  if (place.pipe < 0)
    return;
  PipeState &pipe = pipes[std::size_t(place.pipe)];
  pipe.slots[std::size_t(place.wait % std::int64_t(pipe.slots.size()))].read = true;
}

bool Cluster::seenByProduct(Operation *op, const BufferAt &buffer) {
  if (buffer.place < 0)
    return true;
  const PipePlace &place = places[std::size_t(buffer.place)];
  const PipeState &pipe = pipes[std::size_t(place.pipe)];
  const auto number = place.wait % std::int64_t(pipe.slots.size());
  if (!pipe.slots[std::size_t(number)].unseen)
    return true;
  fail(op, say("reads slot ", number, ", which threads filled without a fence_async behind the wait for it"));
  return false;
}

} // namespace sectile::tgpu::exec
