// SPDX-License-Identifier: Apache-2.0
/// \file PlaceMemory: offsets of shared buffers by lifetime.
///
/// Before: buffers without offsets. After: every buffer has one, overlapping lifetimes never share bytes; the
/// launch attribute has the total.

#include "passes/Passes.h"
#include "passes/SharedAccesses.h"

#include "llvm/ADT/MapVector.h"

namespace sectile::passes {
#define GEN_PASS_DEF_PLACEMEMORYPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

/// Of every offset: enough for 16-byte accesses.
constexpr int64_t alignment = 16;

/// Of one mbarrier.
constexpr int64_t arrivalBytes = 8;

/// Buffers up to `smallBytes`, such as the parts of a reduction, get bytes of their own as long as all of
/// those fit into `smallTotal`: sharing would cost a barrier.
constexpr int64_t smallBytes = 2048, smallTotal = 8192;

/// A buffer, live from op number `begin` to `end`, both included.
struct Lifetime {
  tgpu::BufferAllocOp alloc;
  int64_t begin = 0, end = 0, bytes = 0, offset = 0;
};

struct PlaceMemory : sectile::passes::impl::PlaceMemoryPassBase<PlaceMemory> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    // Number ops in program order; an op with regions spans its body.
    DenseMap<Operation *, std::pair<int64_t, int64_t>> span;
    int64_t counter = 0;
    auto number = [&](auto &self, Operation *op) -> void {
      int64_t first = counter++;
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Operation &inner : block)
            self(self, &inner);
      span[op] = {first, counter - 1};
    };
    number(number, func);

    llvm::MapVector<Operation *, Lifetime> lifetimes;
    func.walk([&](Operation *op) {
      forEachBuffer(op, [&](Value buffer, bool) {
        tgpu::BufferAllocOp alloc = allocOf(buffer);
        // Used inside a loop that the buffer does not belong to: live through all of that loop.
        Operation *user = alloc->getBlock()->findAncestorOpInBlock(*op);
        auto [begin, end] = span[user];
        auto [it, isNew] =
            lifetimes.try_emplace(alloc, Lifetime{alloc, begin, end, alloc.getType().bytes(), 0});
        it->second.begin = std::min(it->second.begin, begin);
        it->second.end = std::max(it->second.end, end);
      });
    });

    SmallVector<Lifetime *> order;
    for (auto &entry : lifetimes)
      order.push_back(&entry.second);
    llvm::stable_sort(order, [](Lifetime *a, Lifetime *b) { return a->bytes > b->bytes; });
    int64_t total = 0, small = 0;
    for (Lifetime *life : order)
      if (life->bytes <= smallBytes)
        small += int64_t(llvm::alignTo(life->bytes, alignment));
    auto ownBytes = [&](Lifetime *life) { return small <= smallTotal && life->bytes <= smallBytes; };
    SmallVector<Lifetime *> placed;
    for (Lifetime *life : order) {
      // The lowest gap between those placed that live at the same time.
      SmallVector<Lifetime *> busy;
      for (Lifetime *other : placed)
        if ((ownBytes(life) && ownBytes(other)) || (life->begin <= other->end && other->begin <= life->end))
          busy.push_back(other);
      llvm::sort(busy, [](Lifetime *a, Lifetime *b) { return a->offset < b->offset; });
      int64_t at = 0;
      for (Lifetime *other : busy) {
        if (at + life->bytes <= other->offset)
          break;
        at = std::max(at, int64_t(llvm::alignTo(other->offset + other->bytes, alignment)));
      }
      life->offset = at;
      life->alloc.setOffset(at);
      total = std::max(total, at + life->bytes);
      placed.push_back(life);
    }
    func.walk([&](tgpu::BufferAllocOp alloc) {
      if (!lifetimes.count(alloc)) // no op touches it
        alloc.setOffset(0);
    });
    total = placeArrivals(func, int64_t(llvm::alignTo(total, alignment)));
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    int64_t warps = launch ? launch.getWarps() : 1, cluster = launch ? launch.getCluster() : 1;
    func->setAttr(tgpu::launchAttr,
                  tgpu::LaunchAttr::get(&getContext(), warps, int64_t(llvm::alignTo(total, alignment)), cluster));
  }

  /// Behind the buffers: for each that other blocks write, the count of what has arrived. Returns the new end.
  int64_t placeArrivals(func::FuncOp func, int64_t end) {
    DenseMap<Operation *, IntegerAttr> places;
    Builder b(&getContext());
    func.walk([&](tgpu::PeerCopyOp copy) {
      IntegerAttr &place = places[allocOf(copy.getBuffer())];
      if (!place) {
        place = b.getI64IntegerAttr(end);
        end += arrivalBytes;
      }
      copy.setArrivalAttr(place);
    });
    func.walk([&](tgpu::PeerWaitOp wait) { wait.setArrivalAttr(places.lookup(allocOf(wait.getBuffer()))); });
    return end;
  }
};

} // namespace
