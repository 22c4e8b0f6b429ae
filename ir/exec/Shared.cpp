// SPDX-License-Identifier: Apache-2.0
/// \file Shared memory: copies in the vectors of AccessPlan or by matrices, the operands of scalar products,
/// barriers.
///
/// Buffers have fixed places, so all addresses, and with them the passes over the banks, are known once. Those of
/// pipes have one per slot, at multiples of 1024 bytes, which changes no bank.
#include "ir/base/Banks.h"
#include "ir/exec/Program.h"

#include <algorithm>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

namespace {

/// Byte address of an element.
std::int64_t addressOf(const BufferAt &buffer, llvm::function_ref<std::int64_t(std::size_t)> coordinate) {
  ArrayRef<int64_t> shape = buffer.type.getShape();
  std::int64_t row = 0;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d)
    row = row * shape[d] + coordinate(d);
  std::int64_t column = coordinate(shape.size() - 1);
  std::int64_t index = (row * shape.back() + column) ^ swizzleOf(buffer.type).of(row, column);
  return buffer.offset + index * std::int64_t(byteSize(*dtypeOfType(buffer.type.getElementType())));
}

} // namespace

std::vector<std::int64_t> elementPlaces(BufferType type) {
  std::int64_t rows = 1, length = type.getShape().back();
  for (std::int64_t n : type.getShape().drop_back())
    rows *= n;
  const Swizzle swizzle = swizzleOf(type);
  const auto size = std::int64_t(byteSize(*dtypeOfType(type.getElementType())));
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < length; ++column)
      places.push_back(((row * length + column) ^ swizzle.of(row, column)) * size);
  return places;
}

namespace {

/// Adds the requests of one instruction of all warps; `addresses` per thread, -1 where it does nothing.
void countRequests(OpCounts &counts, ArrayRef<std::int64_t> addresses, std::int64_t bytes) {
  for (std::size_t first = 0; first < addresses.size(); first += warpSize) {
    ArrayRef<std::int64_t> warp = addresses.slice(first, warpSize);
    std::int64_t lanes = llvm::count_if(warp, [](std::int64_t at) { return at >= 0; });
    if (!lanes)
      continue;
    BankPasses passes = bankPasses(warp, bytes);
    ++counts.requests;
    counts.bytes += lanes * bytes;
    counts.wavefronts += passes.all;
    counts.conflicts += passes.all - passes.least;
  }
}

/// The moves of a tile to or from a buffer.
class Moves {
public:
  Moves(Program &p, Operation *op, Value bufferValue, const Slot &tile, bool writes)
      : op(op), buffer(p.buffers.lookup(bufferValue)), tile(tile), writes(writes), counts(p.count(op)),
        threads(p.threads) {
    const LayoutTable &table = *tile.table;
    auto addressesOf = [&](const LayoutTable &t, int reg, bool onlyOwners) {
      std::vector<std::int64_t> addresses;
      for (int thread = 0; thread < threads; ++thread) {
        auto place = std::size_t(reg * threads + thread);
        // Every block writes what it holds into its own memory.
        int warp = thread % (threads / p.blocks) / warpSize;
        addresses.push_back(onlyOwners && !t.owns(reg, thread % warpSize, warp)
                                ? -1
                                : addressOf(buffer, [&](std::size_t d) { return t.coords[d][place]; }));
      }
      return addresses;
    };
    VectorPlan plan = planShared(buffer.type, table.layout);
    for (int r = 0; r < table.regs; ++r)
      if (plan.startsVector(r))
        vectors.push_back({plan.vector(r), addressesOf(table, r, writes)});
    // What the instructions cost.
    const Target *target = p.target();
    bool byMatrices = target && (writes ? target->has(Feature::stmatrix) && table.layout.isInjective()
                                        : target->has(Feature::ldmatrix));
    std::optional<MatrixLoads> matrices;
    if (byMatrices)
      matrices = planMatrixLoads(buffer.type, table.layout);
    if (!matrices) {
      for (const Vector &v : vectors)
        countRequests(perRun, v.addresses, tile.size * std::int64_t(v.registers.size()));
      return;
    }
    const LayoutTable &rows = *p.table(matrices->rows);
    int named = 8 << matrices->matrixBits.size(); // lanes that name a row
    for (int r = 0; r < rows.regs; ++r) {
      std::vector<std::int64_t> addresses = addressesOf(rows, r, false);
      for (std::size_t t = 0; t < addresses.size(); ++t) {
        if (addresses[t] % widestAccess)
          misaligned = int(t);
        if (int(t) % warpSize >= named)
          addresses[t] = -1;
      }
      countRequests(perRun, addresses, widestAccess);
    }
  }

  void operator()(Cluster &b) const {
    std::optional<BufferAt> here = b.placed(op, buffer);
    if (!here)
      return;
    for (const Vector &v : vectors)
      for (int t = 0; t < threads; ++t) {
        std::int64_t at = v.addresses[std::size_t(t)];
        if (at < 0)
          continue;
        at += here->offset - buffer.offset;
        std::int64_t bytes = tile.size * std::int64_t(v.registers.size());
        if (misaligned == t)
          return b.fail(op,
                        say("thread ", t, " names a row of a matrix that starts at no multiple of 16 bytes"));
        char *memory = b.touchShared(op, *here, at, bytes, t, writes);
        if (!memory)
          return;
        for (int reg : v.registers) {
          char *registerAt = b.data(tile) + (std::int64_t(reg) * threads + t) * tile.size;
          std::memcpy(writes ? memory : registerAt, writes ? registerAt : memory, std::size_t(tile.size));
          memory += tile.size;
        }
      }
    b.counts(counts) += perRun;
  }

private:
  struct Vector {
    SmallVector<int> registers;
    std::vector<std::int64_t> addresses; ///< per thread; -1: does nothing
  };
  Operation *op;
  BufferAt buffer;
  Slot tile;
  bool writes;
  int counts, threads, misaligned = -1;
  std::vector<Vector> vectors;
  OpCounts perRun;
};

} // namespace

Action make(Program &p, BufferAllocOp op) {
  if (!op.getOffset())
    return refuse(op, "the buffer has no place in shared memory");
  p.buffers[op.getBuffer()] = {std::int64_t(*op.getOffset()), op.getBuffer().getType(), ++p.numBuffers};
  return [](Cluster &) {};
}
Action make(Program &p, BufferViewOp op) {
  BufferAt buffer = p.buffers.lookup(op.getBuffer());
  buffer.type = op.getResult().getType();
  p.buffers[op.getResult()] = buffer;
  return [](Cluster &) {};
}

Action make(Program &p, CopyOp op) {
  Slot value = p.slot(op.getValue());
  return [=, op = op.getOperation(), moves = Moves(p, op, op.getBuffer(), value, true)](Cluster &b) {
    if (copiesAgree(b, op, value))
      moves(b);
  };
}
Action make(Program &p, CopyOutOp op) {
  Slot r = p.define(op.getResult());
  return [moves = Moves(p, op, op.getBuffer(), r, false), buffer = p.buffers.lookup(op.getBuffer())](Cluster &b) {
    b.noteRead(buffer);
    moves(b);
  };
}

Action make(Program &p, BarrierOp op) {
  return [counts = p.count(op), ofCluster = op.getCluster()](Cluster &b) {
    b.barrier(ofCluster);
    ++b.counts(counts).barriers;
    b.counts(counts).clusterBarriers += ofCluster;
  };
}

// --- clusters
// ---------------------------------------------------------------------------------------------------

Action make(Program &p, ClusterStartOp op) {
  return [op = op.getOperation()](Cluster &b) {
    if (b.started)
      b.fail(op, "the cluster starts a second time");
    b.started = true;
  };
}

Action make(Program &p, PeerCopyOp op) {
  Slot value = p.slot(op.getValue());
  BufferAt buffer = p.buffers.lookup(op.getBuffer());
  const LayoutTable &table = *value.table;
  if (!op.getArrival())
    return refuse(op, "the count of arrivals has no place");
  struct Element {
    std::int64_t number, address;
    int thread;
  };
  std::vector<Element> elements;
  OpCounts perRun;
  for (int r = 0; r < table.regs; ++r)
    for (int t = 0; t < p.threads; ++t)
      if (table.owns(r, t)) {
        auto n = std::size_t(r * p.threads + t);
        elements.push_back(
            {std::int64_t(n), addressOf(buffer, [&](std::size_t d) { return table.coords[d][n]; }), t});
        // One lane serves all blocks, one after the other.
        if (elements.size() < 2 || elements.rbegin()[1].thread / warpSize != t / warpSize ||
            elements.rbegin()[1].number / p.threads != r)
          perRun.requests += p.blocks;
      }
  perRun.bytes = std::int64_t(elements.size()) * value.size * p.blocks;
  return [=, arrival = std::int64_t(*op.getArrival()), counts = p.count(op),
          op = op.getOperation()](Cluster &b) {
    if (!b.started)
      return b.fail(op, "another block may not run yet");
    if (!copiesAgree(b, op, value))
      return;
    auto [sent, isNew] = b.underWay.try_emplace(arrival);
    if (!isNew)
      return b.fail(op, "the last copy was not waited for");
    for (const Element &e : elements)
      for (int block = 0; block < b.program.blocks; ++block) {
        char *memory = b.touchShared(op, buffer, e.address, value.size, e.thread, block, true);
        if (!memory || !b.send(op, memory, value.size, sent->second))
          return;
        std::memcpy(memory, b.data(value) + e.number * value.size, std::size_t(value.size));
      }
    if (std::int64_t(sent->second.size()) * b.program.sharedGrain != buffer.type.bytes() * b.program.blocks)
      return b.fail(op, "not every byte of the buffer is sent");
    b.counts(counts) += perRun;
  };
}

Action make(Program &p, PeerWaitOp op) {
  if (!op.getArrival())
    return refuse(op, "the count of arrivals has no place");
  return [arrival = std::int64_t(*op.getArrival()), op = op.getOperation()](Cluster &b) {
    auto sent = b.underWay.find(arrival);
    if (sent == b.underWay.end())
      return b.fail(op, "nothing is under way");
    for (Cell *cell : sent->second)
      cell->underWay = false;
    b.underWay.erase(sent);
  };
}

// --- scalar products
// --------------------------------------------------------------------------------------------

Action make(Program &p, MmaFmaOp op) {
  // Per step of k each thread reads one element of a for each of its rows, one of b for each of its columns.
  const LayoutTable &acc = *p.slot(op.getAcc()).table;
  if (p.blocks > 1)
    return refuse(op, "products do not run on clusters");
  std::int64_t steps = cast<BufferType>(op.getA().getType()).getShape()[1];
  struct Operand {
    BufferAt buffer;
    std::int64_t size, elements;
    std::vector<std::vector<std::int64_t>> addresses; ///< per instruction, per thread
  };
  std::array<Operand, 2> operands;
  OpCounts perRun;
  for (int which = 0; which < 2; ++which) {
    Operand &o = operands[std::size_t(which)];
    o.buffer = p.buffers.lookup(which ? op.getB() : op.getA());
    o.size = std::int64_t(byteSize(*dtypeOfType(o.buffer.type.getElementType())));
    o.elements = o.buffer.type.getShape()[0] * o.buffer.type.getShape()[1];
    std::map<std::int32_t, int> lines; // coordinate of the register's part -> a register
    for (int r = 0; r < acc.regs; ++r)
      lines.try_emplace(acc.layout.regCoords(r)[which], r);
    for (std::int64_t k = 0; k < steps; ++k)
      for (auto [coordinate, reg] : lines) {
        std::vector<std::int64_t> addresses;
        for (int t = 0; t < p.threads; ++t) {
          std::int64_t own = acc.coords[std::size_t(which)][std::size_t(reg * p.threads + t)];
          addresses.push_back(addressOf(o.buffer, [&](std::size_t d) { return int(d) == which ? own : k; }));
        }
        countRequests(perRun, addresses, o.size);
        o.addresses.push_back(std::move(addresses));
      }
  }
  int counts = p.count(op);
  perRun.runs = 1;
  return makeFmaProduct(p, op, [=, op = op.getOperation()](Cluster &b, bool left) {
    const Operand &o = operands[left ? 0 : 1];
    std::vector<char> whole;
    std::optional<BufferAt> here = b.placed(op, o.buffer);
    if (!here)
      return whole;
    for (const std::vector<std::int64_t> &addresses : o.addresses)
      for (auto [t, at] : llvm::enumerate(addresses)) {
        if (b.failed() ||
            !b.touchShared(op, *here, at + here->offset - o.buffer.offset, o.size, int(t), false))
          return whole;
      }
    ArrayRef<int64_t> shape = o.buffer.type.getShape();
    whole.reserve(std::size_t(o.elements * o.size));
    for (std::int64_t n = 0; n < o.elements; ++n) {
      const char *at = b.shared.data() +
                       addressOf(*here, [&](std::size_t d) { return d ? n % shape[1] : n / shape[1]; });
      whole.insert(whole.end(), at, at + o.size);
    }
    if (left)
      b.counts(counts) += perRun;
    return whole;
  });
}

} // namespace sectile::tgpu::exec
