// SPDX-License-Identifier: Apache-2.0
/// \file SpecialiseWarps: one thread, or a warpgroup, loads ahead, the others compute.
///
/// Before: tgpu.stage_load with sequential meaning, ordered products. After: no stage_load remains; the kernel is a
/// tgpu.roles. The producer is the slice of the program that the loads' addresses need, each load a tgpu.tma_load into
/// the next slot of a tgpu.pipe, or a tgpu.async_load of all threads of the producer; the consumers are the program itself, which waits for a slot before its first use and
/// releases it when the last product that reads it has ended. Loads of one block that are used first and last at the
/// same places share a pipe. Loads that both blocks of a pair share (ShareLoads) are halves that each block sends to both;
/// slots of such pipes are released to both blocks. Kernels without staged loads are unchanged.
///
/// Both roles go through the same loops and branches, so that they take a pipe's slots in the same order and number.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/RoleSlice.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

#include "ir/PingPong.h"
#include "ir/Turns.h"

namespace sectile::passes {
#define GEN_PASS_DEF_SPECIALISEWARPSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

constexpr int64_t producerWarps = 4; ///< a warpgroup: setmaxnreg works on whole ones

/// Registers per thread of the roles, by the consumers' warpgroups (those that CUTLASS takes for large
/// accumulators). None with one: a block of 256 threads has 255 each anyway.
struct RoleRegisters {
  int64_t producer = 0, consumer = 0;
};
/// Of a multiprocessor, and what one thread can have at its entry and later.
constexpr int64_t allRegisters = 65536, mostAtEntry = 255, mostRegisters = 240;
/// Of the thread that loads: addresses and slots alone, or also what it reads from memory to know where and whether.
constexpr int64_t producerRegisters = 24, readingProducerRegisters = 40;
/// Of threads that copy: pointers and bounds of each load on top.
constexpr int64_t copyingProducerRegisters = 72;

/// The producer gives up what it does not need, if the consumers can have more than at their entry.
RoleRegisters registersFor(int64_t consumerWarps, int64_t blocks, bool producerReads, bool producerCopies) {
  const int64_t producer = producerCopies  ? copyingProducerRegisters
                           : producerReads ? readingProducerRegisters
                                           : producerRegisters;
  const int64_t consumers = consumerWarps * 32, producers = producerWarps * 32;
  const int64_t entry = allRegisters / blocks / (consumers + producers) / 8 * 8;
  if (entry >= mostAtEntry)
    return {};
  const int64_t left = entry * (consumers + producers) - producer * producers;
  return {producer, std::min(mostRegisters, left / consumers / 8 * 8)};
}

/// Loads that come through one pipe.
struct Group {
  SmallVector<tgpu::StageLoadOp> loads;
  Operation *firstUse = nullptr; ///< in the loads' block
  Operation *lastUse = nullptr;  ///< there, or, where products of the last iteration are under way, in the loop's block
  Operation *issuedAt = nullptr; ///< the stage_load in whose place the producer fills the pipe
  tgpu::WgmmaWaitOp within;      ///< then: the wait in the loop for products of earlier iterations
  Value pipe;
  bool copies() const {
    return llvm::any_of(loads, [](tgpu::StageLoadOp op) { return op.getCopyBytes().has_value(); });
  }
  /// Some come from both blocks of a pair.
  bool isShared() const {
    return llvm::any_of(loads, [](tgpu::StageLoadOp op) { return op->hasAttr(tgpu::sharedLoadAttr); });
  }
  /// Threads move some to registers. @pre the loads are not replaced yet
  bool isReadByThreads() const {
    return llvm::any_of(loads, [](tgpu::StageLoadOp op) {
      return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<tgpu::CopyOutOp>(user); });
    });
  }
  /// That the TMA unit brings.
  int64_t unitBytes() const {
    int64_t bytes = 0;
    for (tgpu::StageLoadOp op : loads)
      bytes += op.getCopyBytes() ? 0 : op.getBuffer().getType().bytes();
    return bytes;
  }
};

class Specialiser {
public:
  explicit Specialiser(func::FuncOp func) : func(func) {}

  LogicalResult run() {
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    SmallVector<tgpu::StageLoadOp> loads;
    func.walk([&](tgpu::StageLoadOp op) { loads.push_back(op); });
    for (tgpu::StageLoadOp op : loads)
      if (op->use_empty())
        op.erase();
      else
        collect(op);
    const bool copies = llvm::any_of(groups, [](const Group &g) { return g.copies(); });
    // Each group of warps has one thread to load for it, and goes on from program to program by itself.
    if (groups.empty() || copies || !func->hasAttr(tgpu::persistentAttr) || !func.getOps<tgpu::SharedProgramsOp>().empty())
      func->removeAttr(tgpu::groupsAttr);
    if (groups.empty())
      return success();
    auto inTurns = func->getAttrOfType<IntegerAttr>(tgpu::groupsAttr);
    hoistPlace();
    for (Group &g : groups)
      for (tgpu::StageLoadOp op : g.loads)
        if (!slice.add(op))
          return op.emitOpError() << "depends on what only all threads know (a fault of the compiler, not of the kernel)";

    Block &body = func.getBody().front();
    OpBuilder b(&body, place);
    Location loc = func.getLoc();
    const int64_t warps = launch.getWarps();
    func->setAttr(tgpu::launchAttr, tgpu::LaunchAttr::get(func.getContext(), warps, launch.getSharedBytes(),
                                                          launch.getCluster(), producerWarps));
    for (Group &g : groups) {
      if (Group *other = earlierAlike(g)) {
        g.pipe = other->pipe;
        continue;
      }
      SmallVector<tgpu::BufferType> buffers;
      for (tgpu::StageLoadOp op : g.loads)
        buffers.push_back(op.getBuffer().getType());
      auto type = tgpu::PipeType::get(func.getContext(), 1, buffers);
      const int64_t full = (g.unitBytes() ? 1 : 0) + (g.copies() ? producerWarps * 32 : 0);
      g.pipe = tgpu::PipeCreateOp::create(b, g.loads.front().getLoc(), type, full, /*empty=*/warps * (g.isShared() ? 2 : 1), /*free=*/1,
                                          IntegerAttr(), IntegerAttr());
    }
    orderLoads();
    auto planned = func->getAttrOfType<IntegerAttr>(tgpu::minBlocksAttr);
    const int64_t blocks = planned ? planned.getInt() : 1;
    const bool producerReads = func.walk([&](Operation *op) {
                                     return isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(op) && slice.contains(op)
                                                ? WalkResult::interrupt()
                                                : WalkResult::advance();
                                   }).wasInterrupted();
    const RoleRegisters registers =
        registersFor(warps * (inTurns ? inTurns.getInt() : 1), blocks, producerReads, copies);
    func->setAttr(tgpu::minBlocksAttr, b.getI64IntegerAttr(blocks)); // a fixed number of registers is what roles hand over
    auto roles = tgpu::RolesOp::create(b, loc, registers.producer, registers.consumer);
    Block &producer = roles.getProducer().emplaceBlock(), &consumer = roles.getConsumer().emplaceBlock();

    IRMapping map;
    OpBuilder inProducer(&producer, producer.end());
    // The program is still where it was, behind the roles.
    slice.copy(body, inProducer, map, [&](Operation *op, OpBuilder &at, IRMapping &map) { return load(op, at, map); });
    for (Operation &op : llvm::make_early_inc_range(llvm::make_range(std::next(roles->getIterator()), body.end())))
      if (!op.hasTrait<OpTrait::IsTerminator>())
        op.moveBefore(&consumer, consumer.end());
    for (Group &g : groups)
      consume(g);
    auto wanted = func->getAttrOfType<IntegerAttr>(tgpu::turnsAttr);
    func->removeAttr(tgpu::turnsAttr);
    if (inTurns)
      markTurns(consumer);
    else if (warps == 2 * warpgroup && (!wanted || wanted.getInt() != 1))
      markLoops(consumer, wanted != nullptr);
    return success();
  }

private:
  static constexpr int64_t warpgroup = 4; ///< warps

  /// Loops in which a product is issued, and another one with its first operand in registers before the first is waited for: an
  /// iteration has the tensor cores from the one to the other. Worth it where threads work half as long as the products take, or longer.
  void markLoops(Block &consumer, bool always) {
    consumer.walk([&](scf::ForOp loop) {
      tgpu::WgmmaOp first, last;
      bool isWaited = false;
      for (Operation &op : loop.getBody()->without_terminator()) {
        if (auto product = dyn_cast<tgpu::WgmmaOp>(op); product && !isWaited) {
          first = first ? first : product;
          last = product;
        }
        isWaited |= first && isa<tgpu::WgmmaWaitOp>(op);
      }
      if (!isWaited || first == last || !isTile(last.getA()) || isTile(first.getB()) || !(always || works(loop)))
        return;
      first->setAttr(tgpu::turnTakeAttr, UnitAttr::get(func.getContext()));
      last->setAttr(tgpu::turnPassAttr, UnitAttr::get(func.getContext()));
      func->setAttr(tgpu::turnsAttr, UnitAttr::get(func.getContext()));
    });
  }
  /// Clocks of a multiprocessor, in which it makes 16 exponentials, beside them 128 other results, or as many sums of products as
  /// its tensor cores make.
  bool works(scf::ForOp loop) {
    constexpr int64_t exponentialsPerClock = 16, othersPerClock = 128, ofFunction = 16, sumsPerClock = 2048, bits = 16;
    int64_t exponentials = 0, others = 0, products = 0;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (auto product = dyn_cast<tgpu::WgmmaOp>(op)) {
        const tgpu::BufferType b = product.getB().getType();
        const int64_t m = tileir::shapeOf(product.getType())[0], elements = llvm::product_of(b.getShape());
        products += m * elements * int64_t(b.getElementType().getIntOrFloatBitWidth()) / (sumsPerClock * bits);
      } else if (auto unary = dyn_cast<tileir::UnaryOp>(op); unary && isTile(unary.getResult())) {
        const int64_t elements = llvm::product_of(tileir::shapeOf(unary.getType()));
        if (unary.getFn() == tileir::UnaryFn::k_exp2)
          exponentials += elements / exponentialsPerClock;
        else
          others += elements * ofFunction / othersPerClock;
      } else if (isa<tileir::BinaryOp, tileir::FmaOp, tileir::CompareOp, tileir::SelectOp, tileir::CastOp>(op) && isTile(op.getResult(0))) {
        others += llvm::product_of(tileir::shapeOf(op.getResult(0).getType())) / othersPerClock;
      }
    }
    exponentials = std::max(exponentials, others);
    return 2 * exponentials >= products;
  }

  /// A program has the tensor cores from its first wait for operands to the last op that waits for some.
  void markTurns(Block &consumer) {
    for (auto programs : consumer.getOps<scf::ForOp>()) {
      if (programs.getBody()->getOps<tgpu::ProgramOp>().empty())
        continue;
      Operation *first = nullptr, *last = nullptr;
      for (Operation &op : programs.getBody()->without_terminator())
        if (op.walk([](tgpu::PipeWaitOp) { return WalkResult::interrupt(); }).wasInterrupted()) {
          first = first ? first : &op;
          last = &op;
        }
      first->setAttr(tgpu::turnTakeAttr, UnitAttr::get(func.getContext()));
      last->setAttr(tgpu::turnPassAttr, UnitAttr::get(func.getContext()));
    }
  }

  // --- who uses a load, and until when

  /// The op of `block` that is or contains `op`; null if there is none.
  static Operation *within(Block *block, Operation *op) { return block->findAncestorOpInBlock(*op); }

  /// Behind which op a use of a buffer is over.
  static Operation *endOf(Operation *use) {
    auto product = dyn_cast<tgpu::WgmmaOp>(use);
    if (!product)
      return use;
    uint64_t behind = 0;
    Operation *at = product->getNextNode();
    while (true) {
      for (; at && !at->hasTrait<OpTrait::IsTerminator>(); at = at->getNextNode()) {
        if (isa<tgpu::WgmmaOp>(at))
          ++behind;
        else if (auto wait = dyn_cast<tgpu::WgmmaWaitOp>(at); wait && wait.getPending() <= behind)
          return wait;
      }
      // Under way at the end of an iteration: the wait stands behind the loop.
      at = use->getParentOp()->getNextNode();
      use = use->getParentOp();
      behind = 0;
    }
  }

  void collect(tgpu::StageLoadOp op) {
    Group g;
    g.loads.push_back(op);
    Block *block = op->getBlock();
    bool leaves = false;
    for (Operation *user : op->getUsers()) {
      Operation *first = within(block, user), *end = endOf(user), *last = within(block, end);
      if (!g.firstUse || first->isBeforeInBlock(g.firstUse))
        g.firstUse = first;
      if (!last) {
        leaves = true;
        g.lastUse = end;
        for (Operation *at = user; at; at = at->getNextNode())
          if (auto wait = dyn_cast<tgpu::WgmmaWaitOp>(at))
            g.within = wait;
      } else if (!leaves && (!g.lastUse || g.lastUse->isBeforeInBlock(last))) {
        g.lastUse = last;
      }
    }
    for (Group &other : groups)
      if (other.loads.front()->getBlock() == block && other.firstUse == g.firstUse && other.lastUse == g.lastUse &&
          other.within == g.within) {
        other.loads.push_back(op);
        return;
      }
    groups.push_back(std::move(g));
  }

  /// Another group of the same boxes, at other places of the program: one pipe serves both, as the slots of one are released
  /// before anyone waits for the other. So the first iterations of a loop, or parts of it, that stand alone share its slots.
  Group *earlierAlike(Group &g) {
    auto alike = [&](Group &other) {
      return llvm::equal(g.loads, other.loads, [](tgpu::StageLoadOp x, tgpu::StageLoadOp y) {
        return x.getX() == y.getX() && x.getMap() == y.getMap() && x.getBuffer().getType() == y.getBuffer().getType() &&
               x.getCopyBytes() == y.getCopyBytes() && x->hasAttr(tgpu::sharedLoadAttr) == y->hasAttr(tgpu::sharedLoadAttr);
      });
    };
    Group *found = nullptr;
    for (Group &other : groups) {
      if (&other == &g)
        break;
      if (!alike(other))
        continue;
      if (!comesBefore(other, g) && !comesBefore(g, other))
        return nullptr;
      found = found ? found : &other;
    }
    return found;
  }
  /// All uses of `a` are over where `b` is first used, in the innermost block that has both.
  static bool comesBefore(const Group &a, const Group &b) {
    Block *block = a.firstUse->getBlock();
    while (!within(block, b.firstUse))
      block = block->getParentOp()->getBlock();
    Operation *end = within(block, a.lastUse), *start = within(block, b.firstUse);
    return end && end != start && end->isBeforeInBlock(start);
  }

  // --- the roles

  /// Which program and which part of it this block has stands before the roles, for both.
  void hoistPlace() {
    Block &body = func.getBody().front();
    SmallVector<Operation *> places;
    for (Operation &op : body)
      if (isa<tileir::GridOp, tgpu::SplitRangeOp, tgpu::SharedProgramsOp>(op))
        places.push_back(&op);
    auto hoist = [&](auto &self, Operation *op) -> void {
      if (!op || op->getBlock() != &body || !hoisted.insert(op).second)
        return;
      for (Value operand : op->getOperands())
        self(self, operand.getDefiningOp());
      op->moveBefore(&body, place);
      place = std::next(op->getIterator());
    };
    place = body.begin();
    for (Operation *op : places)
      hoist(hoist, op);
  }

  bool load(Operation *op, OpBuilder &b, IRMapping &map) {
    auto staged = dyn_cast<tgpu::StageLoadOp>(op);
    if (!staged)
      return isa<tgpu::PipeCreateOp, tgpu::RolesOp>(op) || hoisted.contains(op);
    for (Group *g : inOrder) {
      if (g->issuedAt != op)
        continue;
      issue(*g, b, map);
    }
    return true;
  }

  /// Pipes of one block are filled in the order in which the consumers wait for them: each at its own last load, or where
  /// the one before it is filled.
  void orderLoads() {
    for (Group &g : groups) {
      g.issuedAt = g.loads.back();
      inOrder.push_back(&g);
    }
    llvm::stable_sort(inOrder, [](Group *a, Group *b) {
      return a->firstUse != b->firstUse && a->firstUse->getBlock() == b->firstUse->getBlock() &&
             a->firstUse->isBeforeInBlock(b->firstUse);
    });
    DenseMap<Block *, Operation *> latest;
    for (Group *g : inOrder) {
      Operation *&before = latest[g->issuedAt->getBlock()];
      if (before && g->issuedAt->isBeforeInBlock(before))
        g->issuedAt = before;
      before = g->issuedAt;
    }
  }

  void issue(Group &g, OpBuilder &b, IRMapping &map) {
    tgpu::PipeAcquireOp::create(b, g.loads.front().getLoc(), g.pipe, g.unitBytes());
    for (auto [i, member] : llvm::enumerate(g.loads)) {
      SmallVector<Value> offsets;
      for (Value v : member.getOffsets())
        offsets.push_back(map.lookupOrDefault(v));
      if (auto copyBytes = member.getCopyBytes())
        tgpu::AsyncLoadOp::create(b, member.getLoc(), member.getX(), offsets, member.getMap(), g.pipe, int64_t(i), *copyBytes);
      else if (member->hasAttr(tgpu::sharedLoadAttr))
        issueHalf(b, member, offsets, g.pipe, int64_t(i));
      else
        tgpu::TmaLoadOp::create(b, member.getLoc(), member.getX(), offsets, member.getMap(), g.pipe, int64_t(i), IntegerAttr());
    }
    if (g.copies())
      tgpu::AsyncArriveOp::create(b, g.loads.back().getLoc(), g.pipe);
    tgpu::PipeCommitOp::create(b, g.loads.back().getLoc(), g.pipe);
  }

  /// This block's half of a tile, for both blocks of the pair.
  static void issueHalf(OpBuilder &b, tgpu::StageLoadOp load, SmallVectorImpl<Value> &offsets, Value pipe, int64_t index) {
    constexpr int64_t bothBlocks = 3;
    Location loc = load.getLoc();
    tgpu::MapAttr map = load.getMap();
    const int64_t panels = load.getBuffer().getType().getShape().front();
    int64_t axis = map.getOrder()[0], half = panels / 2 * map.getBox()[0];
    if (panels % 2) {
      const size_t n = *slowestRows(map);
      SmallVector<int64_t> box(map.getBox());
      axis = map.getOrder()[n];
      half = box[n] /= 2;
      map = tgpu::MapAttr::get(b.getContext(), map.getOrder(), box, map.getSwizzle(), map.getLimits(), map.getTf32());
    }
    Value rank = tgpu::PairRankOp::create(b, loc, b.getIndexType());
    Value &offset = offsets[size_t(axis)];
    offset = binary(b, loc, tileir::BinaryFn::k_add, offset,
                    binary(b, loc, tileir::BinaryFn::k_mul, rank, indexConstant(b, loc, half)));
    tgpu::TmaLoadOp::create(b, loc, load.getX(), offsets, map, pipe, index, b.getI64IntegerAttr(bothBlocks));
  }

  void consume(Group &g) {
    auto type = cast<tgpu::PipeType>(g.pipe.getType());
    OpBuilder b(g.firstUse);
    Location loc = g.loads.front().getLoc();
    const bool isShared = g.isShared();
    SmallVector<Type> results(type.getBuffers());
    auto wait = tgpu::PipeWaitOp::create(b, loc, results, g.pipe);
    if (g.copies()) // threads wrote: wgmma looks another way
      tgpu::FenceAsyncOp::create(b, loc);
    const bool fences = g.unitBytes() && g.isReadByThreads(); // CheckPipeline, c21
    if (g.within) { // the slot of the newest products stays
      b.setInsertionPointAfter(g.within);
      if (fences)
        tgpu::FenceAsyncOp::create(b, loc);
      tgpu::PipeReleaseOp::create(b, loc, g.pipe, 1, isShared);
    }
    b.setInsertionPointAfter(g.lastUse);
    if (fences)
      tgpu::FenceAsyncOp::create(b, loc);
    tgpu::PipeReleaseOp::create(b, loc, g.pipe, 0, isShared);
    for (auto [op, buffer] : llvm::zip_equal(g.loads, wait.getBuffers())) {
      op.getBuffer().replaceAllUsesWith(buffer);
      op.erase();
    }
  }

  func::FuncOp func;
  DenseSet<Operation *> hoisted;
  Block::iterator place; ///< behind those
  RoleSlice slice;
  SmallVector<Group> groups;
  SmallVector<Group *> inOrder; ///< as the consumers wait
};

struct SpecialiseWarps : sectile::passes::impl::SpecialiseWarpsPassBase<SpecialiseWarps> {
  void runOnOperation() override {
    if (failed(Specialiser(getOperation()).run()))
      return signalPassFailure();
    remarkReads(getOperation());
  }
};

} // namespace
