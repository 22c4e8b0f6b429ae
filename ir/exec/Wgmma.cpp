// SPDX-License-Identifier: Apache-2.0
/// \file Asynchronous products by warpgroups: groups under way, their operands in shared memory, waits.
///
/// A group reads its operands when it ends, as late as the hardware may: what happens to them before shows.
/// Until a wait names a value that a group gives, the value has no registers of its own; only the group knows
/// it.
#include "ir/base/MmaTable.h"
#include "ir/exec/Program.h"

#include <array>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

// --- what products read and give
// --------------------------------------------------------------------------------

const ProductGroup *Cluster::readerOf(std::int64_t begin, std::int64_t end) const {
  for (const auto &group : products)
    for (const BufferAt &buffer : group->reads)
      if (buffer.offset < end && begin < buffer.offset + buffer.type.bytes())
        return group.get();
  return nullptr;
}

bool Cluster::readByProduct(Operation *op, const BufferAt &buffer, bool ends) {
  const std::int64_t end = buffer.offset + buffer.type.bytes();
  if (end > program.sharedBytes) {
    fail(op, say("reads bytes ", buffer.offset, " to ", end - 1, " of shared memory; the block has ",
                 program.sharedBytes));
    return false;
  }
  for (std::int64_t at = buffer.offset; at < end; at += program.sharedGrain) {
    Cell &c = cellAt(shared.data() + at);
    const char *why = c.writeEpoch < firstEpoch ? "which nothing has written"
                      : c.buffer != buffer.number
                          ? "which was last written through another buffer: both are live"
                      : c.writeEpoch == epoch ? "which threads wrote without a barrier behind it"
                      : c.fence > seenFences ? "which threads wrote without a fence_async before the barrier"
                                             : nullptr;
    if (why) {
      fail(op, say("reads byte ", at, " of shared memory, ", why));
      return false;
    }
    if (!ends)
      continue;
    // Other warpgroups may still read when this one waits no more.
    c.readEpoch = epoch;
    c.readAcross = across;
    c.reader = Cell::many;
    c.readBlock = 0;
  }
  return true;
}

bool Cluster::ready(Operation *op, ArrayRef<Slot> tiles) {
  for (const Slot &s : tiles)
    if (auto found = unready.find(s.offset); found != unready.end()) {
      fail(op, say("uses the result of a product that no wait has named: ",
                   ExecFault{found->second->op, {}}.text()));
      return false;
    }
  return true;
}

// --- products
// ---------------------------------------------------------------------------------------------------

namespace {

/// Where the elements of an operand [outer, k] lie in its buffer, by (outer, k), or by (k, outer) with
/// `kFirst`.
std::vector<std::int64_t> operandPlaces(BufferType type, bool mn, bool kFirst) {
  const std::vector<std::int64_t> places = elementPlaces(type);
  const std::int64_t rows = type.getShape()[1], columns = type.getShape()[2],
                     contiguous = type.getShape()[0] * columns;
  const std::int64_t outer = mn ? contiguous : rows, k = mn ? rows : contiguous;
  std::vector<std::int64_t> result(std::size_t(outer * k));
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t row = mn ? j : i, along = mn ? i : j;
      result[std::size_t(kFirst ? j * outer + i : i * k + j)] =
          places[std::size_t((along / columns * rows + row) * columns + along % columns)];
    }
  return result;
}

std::vector<char> gather(Cluster &b, const BufferAt &buffer, ArrayRef<std::int64_t> places,
                         std::int64_t size) {
  std::vector<char> whole(places.size() * std::size_t(size));
  for (auto [n, place] : llvm::enumerate(places))
    std::memcpy(&whole[n * std::size_t(size)], b.shared.data() + buffer.offset + place, std::size_t(size));
  return whole;
}

void cutToTf32(std::vector<char> &f32s) {
  for (std::size_t i = 0; i < f32s.size(); i += sizeof(std::uint32_t)) {
    std::uint32_t bits;
    std::memcpy(&bits, &f32s[i], sizeof bits);
    bits &= ~0x1fffu;
    std::memcpy(&f32s[i], &bits, sizeof bits);
  }
}

} // namespace

Action make(Program &p, WgmmaOp op) {
  const MmaRow *row = findMma(std::string_view(op.getAtom().getName()));
  constexpr int groupWarps = 4; // of a warpgroup
  if (p.blocks > 1 || p.warps % groupWarps)
    return refuse(op, "the warps are no whole warpgroups of one block");
  Slot acc = p.slot(op.getAcc()), r = p.define(op.getResult());
  auto bufferA = dyn_cast<BufferType>(op.getA().getType());
  BufferType bufferB = op.getB().getType();
  std::optional<Slot> a;
  if (!bufferA)
    a = p.slot(op.getA());
  const int groups = p.warps / groupWarps;
  bool fits = false;
  for (int wm = 1; wm <= groups; wm *= 2) {
    auto matches = [&](const Slot &s, MmaOperand which) {
      auto tiled = warpTiled(row->operand(which).layout, s.table->layout.shape(), wm, groups / wm, which);
      return tiled && *tiled == s.table->layout;
    };
    fits |= matches(acc, MmaOperand::C) && matches(r, MmaOperand::C) && (!a || matches(*a, MmaOperand::A));
  }
  if (!fits)
    return refuse(op, "tiles are not in the atom's fragments");
  const std::int64_t n = r.table->layout.dim(1),
                     k = op.getBMn() ? bufferB.getShape()[1] : bufferB.getShape()[0] * bufferB.getShape()[2];
  ProductInto product = makeProduct(row->a.dtype, row->b.dtype, row->policyOnly, r, k);
  if (!product || n == 0)
    return refuse(op, "no such product");
  SmallVector<BufferAt> buffers;
  std::vector<std::int64_t> placesA, placesB = operandPlaces(bufferB, op.getBMn(), true);
  if (bufferA) {
    buffers.push_back(p.buffers.lookup(op.getA()));
    placesA = operandPlaces(bufferA, op.getAMn(), false);
  }
  buffers.push_back(p.buffers.lookup(op.getB()));
  const auto sizeA = std::int64_t(byteSize(row->a.dtype)), sizeB = std::int64_t(byteSize(row->b.dtype));

  auto finish = [=](Cluster &b, ProductGroup &g) {
    for (const BufferAt &buffer : g.reads)
      if (!b.readByProduct(g.op, buffer, true))
        return;
    const std::vector<char> &sum = g.from ? g.from->value : g.value;
    std::memcpy(b.data(r), sum.data(), sum.size()); // nobody else reads this slot
    std::vector<char> left = a ? std::move(g.registers) : gather(b, g.reads.front(), placesA, sizeA);
    std::vector<char> right = gather(b, g.reads.back(), placesB, sizeB);
    if (row->policyOnly) { // of operands in shared memory the unit reads 19 bits
      if (!a)
        cutToTf32(left);
      cutToTf32(right);
    }
    product(b, std::move(left), std::move(right));
    g.value.assign(b.data(r), b.data(r) + r.count * r.size);
    g.from.reset();
    g.ended = true;
  };
  return [=, counts = p.count(op), op = op.getOperation()](Cluster &b) {
    ++b.counts(counts).runs;
    auto group = std::make_shared<ProductGroup>();
    group->op = op;
    group->finish = finish;
    for (const BufferAt &buffer : buffers) {
      std::optional<BufferAt> here = b.placed(op, buffer);
      if (!here || !b.seenByProduct(op, buffer) || !b.readByProduct(op, *here, false))
        return;
      group->reads.push_back(*here);
    }
    if (a) {
      if (!copiesAgree(b, op, *a))
        return;
      const std::vector<std::int32_t> &linear = a->table->linear;
      group->registers.resize(
          std::size_t(std::int64_t(a->table->layout.dim(0)) * a->table->layout.dim(1) * a->size));
      for (std::int64_t i = 0; i < a->count; ++i)
        std::memcpy(&group->registers[std::size_t(linear[std::size_t(i)] * a->size)],
                    b.data(*a) + i * a->size, std::size_t(a->size));
    }
    if (auto found = b.unready.find(acc.offset); found != b.unready.end()) {
      if (found->second->replaced)
        return b.fail(op, "adds to a product whose registers hold the sum of a later one");
      found->second->replaced = true;
      group->from = found->second;
    } else if (copiesAgree(b, op, acc)) {
      group->value.assign(b.data(acc), b.data(acc) + acc.count * acc.size);
    } else {
      return;
    }
    b.unready[r.offset] = group;
    b.products.push_back(std::move(group));
  };
}

Action make(Program &p, WgmmaWaitOp op) {
  SmallVector<std::pair<Slot, Slot>> passed;
  for (auto [value, result] : llvm::zip_equal(op.getValues(), op.getResults())) {
    const Slot from = p.slot(value); // before a definition moves the table of slots
    passed.push_back({from, p.define(result)});
  }
  return [=, pending = std::size_t(op.getPending()), op = op.getOperation()](Cluster &b) {
    while (b.products.size() > pending && !b.failed()) {
      std::shared_ptr<ProductGroup> group = b.products.front();
      b.products.erase(b.products.begin());
      group->finish(b, *group);
    }
    for (const auto &[from, to] : passed) {
      if (b.failed())
        return;
      const char *data = b.data(from);
      if (auto found = b.unready.find(from.offset); found != b.unready.end()) {
        if (!found->second->ended)
          return b.fail(op, say("names the result of a product that is still under way: ",
                                ExecFault{found->second->op, {}}.text()));
        if (found->second->replaced)
          return b.fail(op, "names a product whose registers hold the sum of a later one");
        data = found->second->value.data();
      }
      std::memcpy(b.data(to), data, std::size_t(to.count * to.size));
      b.unready.erase(to.offset);
    }
  };
}

Action make(Program &, FenceAsyncOp) {
  return [](Cluster &b) {
    b.fence();
    b.fenceSlots();
  };
}

} // namespace sectile::tgpu::exec
