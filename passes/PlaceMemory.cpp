// SPDX-License-Identifier: Apache-2.0
/// \file PlaceMemory: offsets of shared buffers by lifetime.
///
/// Before: buffers without offsets, pipes of one slot without places. After: every buffer has one, overlapping lifetimes
/// never share bytes; the launch attribute has the total. Pipes that are filled in the innermost loops have as many slots
/// as the schedule names, or as fit, up to `mostStages`; each lies at a place of its own.

#include "passes/Passes.h"
#include "passes/SharedAccesses.h"
#include "passes/Support.h"

#include "ir/PingPong.h"

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

/// More slots than this only take room: the copies of a whole tile are under way long before.
constexpr int64_t mostStages = 8;
/// Least slots of a pipe in a loop: one is read while the next is filled.
constexpr int64_t leastStages = 2;

/// Of one mbarrier.
constexpr int64_t arrivalBytes = 8;

/// Buffers up to `smallBytes`, such as the parts of a reduction, get bytes of their own as long as all of
/// those fit into `smallTotal`: sharing would cost a barrier.
constexpr int64_t smallBytes = 2048, smallTotal = 8192;

/// A buffer, live from op number `begin` to `end`, both included.
struct Lifetime {
  tgpu::BufferAllocOp alloc;
  int64_t begin = 0, end = 0, bytes = 0, offset = 0;
  int64_t align = alignment;
};

/// TMA and wgmma see addresses: their swizzles start at multiples of 1024.
int64_t alignmentOf(tgpu::BufferAllocOp alloc) {
  bool isSwizzled = llvm::any_of(alloc->getUsers(),
                                 [](Operation *user) { return isa<tgpu::WgmmaOp, tgpu::BulkStoreOp>(user); });
  return isSwizzled ? tgpu::slotAlignment : alignment;
}
/// Copies out of it end at no place in the program: its bytes are its own.
bool isAlwaysBusy(tgpu::BufferAllocOp alloc) {
  return llvm::any_of(alloc->getUsers(), [](Operation *user) { return isa<tgpu::BulkStoreOp>(user); });
}

struct PlaceMemory : sectile::passes::impl::PlaceMemoryPassBase<PlaceMemory> {
  using PlaceMemoryPassBase::PlaceMemoryPassBase;

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
        if (Operation *last = alloc->getBlock()->findAncestorOpInBlock(*endOfReads(op)))
          end = span[last].second;
        auto [it, isNew] =
            lifetimes.try_emplace(alloc, Lifetime{alloc, begin, end, alloc.getType().bytes(), 0, alignmentOf(alloc)});
        if (isAlwaysBusy(alloc))
          std::tie(begin, end) = std::pair(int64_t(0), counter);
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
        at = std::max(at, int64_t(llvm::alignTo(uint64_t(other->offset + other->bytes), uint64_t(life->align))));
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
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    // A launch that copies operands has pipelines in another variant.
    bool mayRepack = false;
    for (BlockArgument arg : func.getArguments())
      mayRepack |= bool(func.getArgAttr(arg.getArgNumber(), tgpu::repackAttr));
    if (stages > 1 && !mayRepack && func.getOps<tgpu::PipeCreateOp>().empty()) {
      func.emitError() << "stages is set to " << int64_t(stages) << ", and the kernel's code for "
                       << (arch ? arch.getValue() : "any target")
                       << " has no pipelined loads: each load is one stage [config_stages]; leave stages at 0, or set it to 1";
      return signalPassFailure();
    }
    if (int64_t pipes = placePipes(func, total)) {
      // Slots first: all of them start at multiples of 1024.
      for (Lifetime *life : order)
        life->alloc.setOffset(life->offset + pipes);
      total += pipes;
      func.walk([&](tgpu::PipeCreateOp op) {
        op.setBarriers(total);
        total += op.getPipe().getType().barrierBytes();
      });
    }
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    int64_t warps = launch ? launch.getWarps() : 1, cluster = launch ? launch.getCluster() : 1;
    func->setAttr(tgpu::launchAttr,
                  tgpu::LaunchAttr::get(&getContext(), warps, bytesOfGroups(func, total), cluster,
                                        launch ? launch.getProducers() : 0));
  }

  static int64_t groupsOf(func::FuncOp func) {
    auto groups = func->getAttrOfType<IntegerAttr>(tgpu::groupsAttr);
    return groups ? groups.getInt() : 1;
  }
  /// The memory of a block, whose groups of warps have `total` bytes each.
  static int64_t bytesOfGroups(func::FuncOp func, int64_t total) {
    const int64_t groups = groupsOf(func);
    return groups > 1 ? groups * int64_t(llvm::alignTo(total, tgpu::slotAlignment)) : int64_t(llvm::alignTo(total, alignment));
  }

  /// Numbers of slots and their places, beside `others` bytes of other buffers. Returns their bytes.
  int64_t placePipes(func::FuncOp func, int64_t others) {
    struct Pipe {
      tgpu::PipeCreateOp op;
      int depth = 0; ///< loops around its loads
      int64_t stages = 1;
      int64_t bytes() { return stages * (op.getPipe().getType().slotBytes() + 16); }
    };
    SmallVector<Pipe> pipes;
    int deepest = 0;
    func.walk([&](tgpu::PipeCreateOp op) {
      Pipe p{op};
      for (Operation *user : op->getUsers())
        if (isa<tgpu::PipeAcquireOp>(user)) {
          int depth = 0;
          for (Operation *parent = user->getParentOp(); parent; parent = parent->getParentOp())
            depth += isa<scf::ForOp, scf::WhileOp>(parent);
          p.depth = std::max(p.depth, depth);
          deepest = std::max(deepest, p.depth);
        }
      pipes.push_back(p);
    });
    if (pipes.empty())
      return 0;
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    const Target *target = arch ? findTarget(std::string_view(arch.getValue())) : nullptr;
    // Several blocks share a multiprocessor's memory, of which the system takes some for each.
    constexpr int64_t systemBytes = 1024;
    auto blocks = func->getAttrOfType<IntegerAttr>(tgpu::minBlocksAttr);
    int64_t room = target ? target->sharedBytesPerBlock : 0;
    if (blocks && blocks.getInt() > 1)
      room = (room + systemBytes) / blocks.getInt() - systemBytes;
    if (const int64_t groups = groupsOf(func); groups > 1) // each at such a multiple
      room = room / groups / tgpu::slotAlignment * tgpu::slotAlignment;
    room -= others;
    auto all = [&] {
      int64_t sum = 0;
      for (Pipe &p : pipes)
        sum += p.bytes();
      return sum;
    };
    for (Pipe &p : pipes)
      if (p.depth == deepest)
        p.stages = stages > 0 ? int64_t(stages) : leastStages;
    // Where the schedule names no number: one slot more for each, as long as all fit.
    for (int64_t wanted = leastStages + 1; stages <= 0 && wanted <= mostStages; ++wanted) {
      for (Pipe &p : pipes)
        if (p.depth == deepest)
          p.stages = wanted;
      if (all() <= room)
        continue;
      for (Pipe &p : pipes)
        if (p.depth == deepest)
          p.stages = wanted - 1;
      break;
    }
    // Then a second slot for what comes once per program, so that the next program's is under way.
    for (Pipe &p : pipes)
      if (p.depth < deepest && p.depth > 0 && all() + p.bytes() <= room)
        p.stages = 2;
    int64_t at = 0;
    for (Pipe &p : pipes) {
      auto type = p.op.getPipe().getType();
      p.op.getPipe().setType(tgpu::PipeType::get(&getContext(), p.stages, type.getBuffers()));
      p.op.setOffset(at);
      at += p.stages * type.slotBytes();
    }
    return at;
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
