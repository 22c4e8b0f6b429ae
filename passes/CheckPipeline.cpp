// SPDX-License-Identifier: Apache-2.0
/// \file CheckPipeline: what cannot be proved about pipes and asynchronous products does not compile.
///
/// Before: placed pipes, all barriers. After: unchanged; fails at the user's line unless all of this holds on every path,
/// for any number of trips of every loop and both ways of every branch:
///  - each phase of a slot's `full` has the arrivals and the bytes that it waits for, each of `empty` the arrivals;
///  - both roles take the same slots in the same order, and nobody waits for what cannot come;
///  - a slot is read between its wait and its release alone, and released when no product reads it any more;
///  - where the TMA unit fills slots that threads read, a fence stands between the reads and the release;
///  - results of products, and buffers that products read, are touched when the products have ended.
///
/// The proof. Each role alone is run on abstract states until no new state appears: a loop's states are those before it
/// and those its body makes of any of them, a branch's those of both sides. There are finitely many: what the
/// producer has put into its slot; which waits the slots come from that the consumers hold; which products are under way,
/// what they read and which values they give. So one pass covers zero, one, few and many trips alike. Then:
///
/// The producer's run shows (c4 to c6) that it fills one slot after the other: acquire, one copy to each buffer, commit,
/// the bytes announced being those copied. RoleMatch shows (c7, c8) that the n-th slot that the producer fills is the
/// n-th that the consumers await. Slots of a pipe are filled, awaited and released round robin by the meaning of the ops,
/// so fill n of a pipe with S slots is fill n div S of slot n mod S, and one arrival (c1) and its bytes complete phase
/// n div S of that slot's `full`, for which the consumers' n-th wait looks. Each warp of the consumers arrives
/// once per release (c2), so release n completes phase n div S of `empty`; fill n + S looks for it, and for the first S
/// fills there is nothing to wait for when the first parity looked for is that before phase 0 (c3). Where threads of the
/// producer copy, each of them runs its program and arrives once per fill behind all of its copies (c16); none is a round
/// ahead of another, since `full` of its fill waits for all. A parity tells apart
/// two neighbouring phases, and no barrier is further ahead of who waits for it: `full` goes on only after the
/// release, which comes after the wait; `empty` only after a wait for the next fill, which comes after the acquire.
///
/// Nobody waits for ever: take the first wait in program order that would, for fill n of pipe p. The producer, which goes
/// through fills in the same order, stands at an acquire of a fill that is not behind it. All fills before it were
/// awaited, so it is fill n itself, and its slot is still held from fill n - S: the consumers hold S slots when
/// they wait, which their run excludes (c9). An acquire waits for a release that the consumers reach without waiting for
/// anything behind that acquire, by the same count. Neither who is faster nor how warps interleave matters: every
/// argument is about counts, which only grow.
///
/// Where the blocks of a pair fill slots together (c18 to c20), PairMatch has the proof for both.
///
/// What threads copied is in a slot when its wait ends, and products see it behind a fence (c17).
///
/// What threads have read is behind them when a release lets the TMA unit write there, as each has a fence between its reads
/// and the release (c21): an arrival alone overtakes reads that are under way, as they belong to another proxy (PTX ISA,
/// "Async proxy"; seen on an H200).
///
/// Where warpgroups take turns, one that stands before its own holds up what it does behind there. Nothing in the other's turn waits for
/// that (c22): the turn ends, whatever the first one does. With c22 the argument above holds for each of them, as a wait for a slot in
/// a turn needs releases that stand before the turn in program order, and these are made without one.
///
/// c10 to c14, c17 and c21 follow from the consumers' states directly. Places that do not overlap (c15) make slots of one pipe
/// and other buffers independent.

#include "ir/PingPong.h"
#include "ir/Turns.h"
#include "passes/PairMatch.h"
#include "passes/Passes.h"
#include "passes/SharedAccesses.h"
#include "passes/Support.h"

#include <map>
#include <set>

namespace sectile::passes {
#define GEN_PASS_DEF_CHECKPIPELINEPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

/// A body that waits for no product would make states without end.
constexpr size_t mostUnderWay = 32;
/// Far above what any kernel has: some per loop.
constexpr size_t mostStates = 1024;

/// What the last product did to a value that it gave.
constexpr int ended = -1;    ///< it has ended, but no wait named the value
constexpr int replaced = -2; ///< its registers hold the sum of a later product

/// One group of instructions under way.
struct Product {
  Operation *op;
  std::vector<std::pair<int64_t, size_t>> slots; ///< that it reads: pipe, place among those held
  std::vector<Operation *> buffers;              ///< allocated ones
  bool operator==(const Product &) const = default;
};

struct State {
  // Of the producer.
  int64_t open = -1; ///< the pipe of the acquired slot
  int64_t announced = 0, copied = 0;
  int64_t arrivals = 0;
  bool uncovered = false; ///< copies of threads with no arrival behind them
  std::vector<bool> filled;
  // Of the consumers.
  std::map<int64_t, std::vector<Operation *>> held; ///< per pipe: the waits for the slots held, oldest first
  std::map<int64_t, size_t> fenced; ///< per pipe that threads fill: the oldest slots held with a fence behind their wait
  std::set<std::pair<int64_t, size_t>> read; ///< pipe, place among those held: threads read it, no fence behind that
  std::vector<Product> underWay;                    ///< oldest first
  std::map<void *, int> results;                    ///< values of products: place in underWay, `ended` or `replaced`
  std::set<Operation *> unordered; ///< buffers read by products that have ended, no barrier behind them
  bool operator==(const State &) const = default;

  const int *result(Value v) const {
    auto found = results.find(v.getAsOpaquePointer());
    return found == results.end() ? nullptr : &found->second;
  }
};
using States = std::vector<State>;

void add(States &into, State state) {
  if (!llvm::is_contained(into, state))
    into.push_back(std::move(state));
}

/// Each target stands for its source from now on; values of `left` are gone.
State passOn(State s, ValueRange targets, ValueRange sources, Block *left) {
  SmallVector<std::pair<void *, int>> passed;
  for (auto [target, source] : llvm::zip_equal(targets, sources))
    if (const int *status = s.result(source))
      passed.push_back({target.getAsOpaquePointer(), *status});
  if (left)
    std::erase_if(s.results,
                  [&](const auto &entry) { return Value::getFromOpaquePointer(entry.first).getParentBlock() == left; });
  for (Value target : targets)
    s.results.erase(target.getAsOpaquePointer());
  for (auto [target, status] : passed)
    s.results[target] = status;
  return s;
}

class Checker {
public:
  Checker(func::FuncOp func, const RoleMatch *match) : func(func), match(match) {
    if (auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr))
      producerThreads = launch.getProducers() * 32;
    func.walk([&](tgpu::AsyncLoadOp op) { byThreads.insert(numberOf(op.getPipe())); });
    func.walk([&](tgpu::TmaLoadOp op) { byUnit.insert(numberOf(op.getPipe())); });
  }

  /// All ways through a block but its terminator.
  LogicalResult run(Block &block, States &states) {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>())
        break;
      if (failed(visit(&op, states)))
        return failure();
      if (states.size() > mostStates)
        return mlir::emitError(op.getLoc()) << "more than " << int64_t(mostStates)
                                            << " states of pipes and products can meet here [check_pipeline_c14]; wait "
                                               "for products and release slots on all ways of a branch alike";
    }
    return success();
  }

private:
  int64_t numberOf(Value pipe) const { return match ? match->numberOf(pipe) : 0; }

  // --- control flow

  LogicalResult visit(Operation *op, States &states) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, states);
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return visitWhile(loop, states);
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return visitIf(branch, states);
    States after;
    for (State &s : states) {
      if (failed(step(op, s)))
        return failure();
      add(after, std::move(s));
    }
    states = std::move(after);
    return success();
  }

  /// Calls `body(states)` on states that are new, with what it makes of them, until there are none. All are in `heads`.
  LogicalResult untilStable(States &heads, llvm::function_ref<LogicalResult(States &)> body) {
    States work = heads;
    while (!work.empty()) {
      if (failed(body(work)))
        return failure();
      States fresh;
      for (State &s : work)
        if (!llvm::is_contained(heads, s)) {
          heads.push_back(s);
          fresh.push_back(std::move(s));
        }
      work = std::move(fresh);
    }
    return success();
  }

  LogicalResult visitFor(scf::ForOp loop, States &states) {
    States heads;
    for (State &s : states)
      add(heads, passOn(std::move(s), loop.getRegionIterArgs(), loop.getInitArgs(), nullptr));
    if (failed(untilStable(heads, [&](States &work) -> LogicalResult {
          if (failed(run(*loop.getBody(), work)))
            return failure();
          for (State &s : work)
            s = passOn(std::move(s), loop.getRegionIterArgs(), loop.getYieldedValues(), loop.getBody());
          return success();
        })))
      return failure();
    states.clear();
    for (State &s : heads)
      add(states, passOn(std::move(s), loop.getResults(), loop.getRegionIterArgs(), loop.getBody()));
    return success();
  }

  LogicalResult visitWhile(scf::WhileOp loop, States &states) {
    Block *before = loop.getBeforeBody(), *after = loop.getAfterBody();
    States heads, left;
    for (State &s : states)
      add(heads, passOn(std::move(s), loop.getBeforeArguments(), loop.getInits(), nullptr));
    if (failed(untilStable(heads, [&](States &work) -> LogicalResult {
          if (failed(run(*before, work)))
            return failure();
          for (State &s : work) {
            add(left, passOn(s, loop.getResults(), loop.getConditionOp().getArgs(), before));
            s = passOn(std::move(s), loop.getAfterArguments(), loop.getConditionOp().getArgs(), before);
          }
          if (failed(run(*after, work)))
            return failure();
          for (State &s : work)
            s = passOn(std::move(s), loop.getBeforeArguments(), loop.getYieldOp().getOperands(), after);
          return success();
        })))
      return failure();
    states = std::move(left);
    return success();
  }

  LogicalResult visitIf(scf::IfOp branch, States &states) {
    States after;
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      States side = states;
      if (block && failed(run(*block, side)))
        return failure();
      for (State &s : side)
        add(after, block ? passOn(std::move(s), branch.getResults(), block->getTerminator()->getOperands(), block) : s);
    }
    states = std::move(after);
    return success();
  }

  // --- the producer

  LogicalResult step(Operation *op, State &s) {
    if (auto acquire = dyn_cast<tgpu::PipeAcquireOp>(op)) {
      if (s.open >= 0)
        return mlir::emitError(op->getLoc())
               << "a slot of pipe " << numberOf(acquire.getPipe()) << " is acquired while one of pipe " << s.open
               << " is being filled [check_pipeline_c4]; commit that first";
      s.open = numberOf(acquire.getPipe());
      s.announced = int64_t(acquire.getBytes());
      s.arrivals = s.announced ? 1 : 0;
      s.copied = 0;
      s.uncovered = false;
      s.filled.assign(acquire.getPipe().getType().getBuffers().size(), false);
      return success();
    }
    if (auto load = dyn_cast<tgpu::TmaLoadOp>(op))
      return stepLoad(load, s);
    if (auto load = dyn_cast<tgpu::AsyncLoadOp>(op)) {
      if (failed(fill(op, load.getPipe(), size_t(load.getIndex()), s)))
        return failure();
      s.uncovered = true;
      return success();
    }
    if (auto arrive = dyn_cast<tgpu::AsyncArriveOp>(op)) {
      const int64_t pipe = numberOf(arrive.getPipe());
      if (s.open != pipe)
        return mlir::emitError(op->getLoc()) << "threads arrive at a slot of pipe " << pipe
                                             << " that is not acquired [check_pipeline_c4]; acquire it first";
      s.arrivals += producerThreads;
      s.uncovered = false;
      return success();
    }
    if (auto commit = dyn_cast<tgpu::PipeCommitOp>(op))
      return stepCommit(commit, s);
    if (auto wait = dyn_cast<tgpu::PipeWaitOp>(op)) {
      auto &held = s.held[numberOf(wait.getPipe())];
      const int64_t stages = wait.getPipe().getType().getStages();
      if (int64_t(held.size()) >= stages)
        return mlir::emitError(op->getLoc())
               << "the consumers wait for a slot of pipe " << numberOf(wait.getPipe()) << " while they hold "
               << int64_t(held.size()) << " of its " << stages << " slots, for ever [check_pipeline_c9]; release one first";
      held.push_back(op);
      return success();
    }
    if (auto release = dyn_cast<tgpu::PipeReleaseOp>(op))
      return stepRelease(release, s);
    return stepConsumer(op, s);
  }

  LogicalResult fill(Operation *op, Value of, size_t index, State &s) {
    const int64_t pipe = numberOf(of);
    if (s.open != pipe)
      return mlir::emitError(op->getLoc()) << "a copy fills a slot of pipe " << pipe
                                           << " that is not acquired [check_pipeline_c4]; acquire it first";
    if (s.filled[index])
      return mlir::emitError(op->getLoc()) << "buffer " << int64_t(index) << " of a slot of pipe " << pipe
                                           << " is filled twice [check_pipeline_c6]; one copy fills each buffer";
    s.filled[index] = true;
    return success();
  }

  LogicalResult stepLoad(tgpu::TmaLoadOp load, State &s) {
    const size_t index = size_t(load.getIndex());
    if (failed(fill(load, load.getPipe(), index, s)))
      return failure();
    // The unit counts whole boxes, also where they reach over the tensor.
    tgpu::BufferType buffer = load.filled();
    const int64_t box = llvm::product_of(load.getMap().getBox()), blocks = load.getMulticast() ? 2 : 1;
    s.copied += blocks * load.panelsAndRows().first * box * (buffer.bytes() / llvm::product_of(buffer.getShape()));
    return success();
  }

  LogicalResult stepCommit(tgpu::PipeCommitOp commit, State &s) {
    const int64_t pipe = numberOf(commit.getPipe());
    if (s.open != pipe)
      return mlir::emitError(commit.getLoc()) << "a slot of pipe " << pipe
                                              << " is committed that is not acquired [check_pipeline_c4]; acquire it first";
    for (auto [i, filled] : llvm::enumerate(s.filled))
      if (!filled)
        return mlir::emitError(commit.getLoc()) << "buffer " << int64_t(i) << " of a slot of pipe " << pipe
                                                << " is not filled [check_pipeline_c6]; one copy fills each buffer";
    if (s.announced != s.copied)
      return mlir::emitError(commit.getLoc())
             << "a slot of pipe " << pipe << " waits for " << s.announced << " bytes, its copies bring " << s.copied
             << " [check_pipeline_c5]; announce what the copies bring";
    if (s.uncovered)
      return mlir::emitError(commit.getLoc())
             << "a slot of pipe " << pipe << " is committed with copies of " << producerThreads
             << " threads that have no arrival behind them [check_pipeline_c16]; put tgpu.async_arrive behind the last copy";
    auto create = commit.getPipe().getDefiningOp<tgpu::PipeCreateOp>();
    if (create && s.arrivals != int64_t(create.getFull()))
      return mlir::emitError(commit.getLoc())
             << "a slot of pipe " << pipe << " is full after " << int64_t(create.getFull())
             << " arrivals, and the producer makes " << s.arrivals << " here [check_pipeline_c1]; full must be that number";
    s.open = -1;
    s.announced = s.copied = s.arrivals = 0;
    s.filled.clear();
    return success();
  }

  // --- the consumers

  LogicalResult stepRelease(tgpu::PipeReleaseOp release, State &s) {
    const int64_t pipe = numberOf(release.getPipe());
    auto &held = s.held[pipe];
    if (held.size() <= size_t(release.getKeep()))
      return success();
    for (const Product &product : s.underWay)
      if (llvm::is_contained(product.slots, std::pair(pipe, size_t(0))))
        return mlir::emitError(release.getLoc())
               << "a slot of pipe " << pipe << " is released while one of " << int64_t(s.underWay.size())
               << " products under way reads it [check_pipeline_c11]; wait for the product first";
    if (s.read.count({pipe, 0}))
      return mlir::emitError(release.getLoc())
             << "a slot of pipe " << pipe << " that threads read is released without a fence behind the reads, and the TMA unit writes there "
             << "next [check_pipeline_c21]; put tgpu.fence_async before the release";
    held.erase(held.begin());
    std::set<std::pair<int64_t, size_t>> read;
    for (auto [of, place] : s.read)
      read.insert({of, place - (of == pipe)});
    s.read = std::move(read);
    if (auto fenced = s.fenced.find(pipe); fenced != s.fenced.end() && --fenced->second == 0)
      s.fenced.erase(fenced);
    for (Product &product : s.underWay)
      for (auto &[of, place] : product.slots)
        place -= of == pipe;
    return success();
  }

  /// Where a buffer comes from: an alloc, a wait, or unknown (null).
  static Operation *sourceOf(Value buffer) {
    while (auto view = buffer.getDefiningOp<tgpu::BufferViewOp>())
      buffer = view.getBuffer();
    Operation *op = buffer.getDefiningOp();
    return isa_and_nonnull<tgpu::BufferAllocOp, tgpu::PipeWaitOp>(op) ? op : nullptr;
  }

  LogicalResult stepConsumer(Operation *op, State &s) {
    auto product = dyn_cast<tgpu::WgmmaOp>(op);
    auto wait = dyn_cast<tgpu::WgmmaWaitOp>(op);
    for (OpOperand &use : op->getOpOperands()) {
      const int *status = s.result(use.get());
      if (wait || !status || (product && &use == &product.getAccMutable()))
        continue;
      return mlir::emitError(op->getLoc())
             << "the result of a product is used "
             << (*status == ended ? "without the wait for it" : "while the product may be under way")
             << " [check_pipeline_c12]; use what tgpu.wgmma_wait gives for it";
    }
    Product made{op, {}, {}};
    if (!isa<tgpu::BufferViewOp>(op))
      for (Value v : op->getOperands())
        if (isa<tgpu::BufferType>(v.getType()) && failed(touch(op, v, s, made)))
          return failure();
    if (isa<tgpu::BarrierOp>(op))
      s.unordered.clear();
    if (isa<tgpu::FenceAsyncOp>(op)) {
      s.read.clear();
      for (int64_t pipe : byThreads)
        if (auto held = s.held.find(pipe); held != s.held.end() && !held->second.empty())
          s.fenced[pipe] = held->second.size();
    }
    if (product)
      return stepProduct(product, std::move(made), s);
    if (wait)
      return stepWait(wait, s);
    return success();
  }

  /// An op reads or writes a buffer.
  LogicalResult touch(Operation *op, Value buffer, State &s, Product &made) {
    Operation *source = sourceOf(buffer);
    const bool writes = isa<tgpu::CopyOp, tgpu::PeerCopyOp, tgpu::BulkStoreOp>(op);
    if (auto wait = dyn_cast_or_null<tgpu::PipeWaitOp>(source)) {
      if (writes)
        return mlir::emitError(op->getLoc())
               << "a slot of pipe " << numberOf(wait.getPipe())
               << " is written by the consumers [check_pipeline_c13]; only the producer's copies may fill it";
      // The newest slot that this wait gave: slots are released in their order, so it goes last.
      const auto &held = s.held[numberOf(wait.getPipe())];
      auto found = std::find(held.rbegin(), held.rend(), source);
      if (found == held.rend())
        return mlir::emitError(op->getLoc())
               << "a slot of pipe " << numberOf(wait.getPipe())
               << " is read after its release [check_pipeline_c10]; release it behind its last use";
      const int64_t pipe = numberOf(wait.getPipe());
      const size_t place = size_t(held.rend() - found) - 1;
      if (auto fenced = s.fenced.find(pipe); isa<tgpu::WgmmaOp>(op) && byThreads.contains(pipe) &&
                                             (fenced == s.fenced.end() || fenced->second <= place))
        return mlir::emitError(op->getLoc())
               << "a product reads a slot of pipe " << pipe << " that " << producerThreads
               << " threads filled, without a fence behind the wait for it [check_pipeline_c17]; put tgpu.fence_async there";
      if (!isa<tgpu::WgmmaOp>(op) && byUnit.contains(pipe))
        s.read.insert({pipe, place});
      made.slots.push_back({pipe, place});
      return success();
    }
    if (!source)
      return mlir::emitError(op->getLoc()) << "it is not known which slot a buffer lies in [check_pipeline_c10]; use "
                                              "results of tgpu.pipe_wait and tgpu.buffer_alloc directly";
    made.buffers.push_back(source);
    if (!writes)
      return success();
    bool under = false, unordered = false;
    for (const Product &product : s.underWay)
      under |= llvm::any_of(product.buffers, [&](Operation *read) { return overlap(read, source); });
    for (Operation *read : s.unordered)
      unordered |= overlap(read, source);
    if (under || unordered)
      return mlir::emitError(op->getLoc())
             << "shared memory is overwritten "
             << (under ? "while a product reads it" : "without a barrier behind the product that reads it")
             << " [check_pipeline_c13]; wait for the product, then for all threads";
    return success();
  }

  static bool overlap(Operation *a, Operation *b) {
    auto x = cast<tgpu::BufferAllocOp>(a), y = cast<tgpu::BufferAllocOp>(b);
    if (a == b || !x.getOffset() || !y.getOffset())
      return a == b;
    const int64_t xBegin = int64_t(*x.getOffset()), yBegin = int64_t(*y.getOffset());
    return xBegin < yBegin + y.getType().bytes() && yBegin < xBegin + x.getType().bytes();
  }

  LogicalResult stepProduct(tgpu::WgmmaOp op, Product made, State &s) {
    if (const int *status = s.result(op.getAcc())) {
      if (*status == replaced)
        return mlir::emitError(op.getLoc()) << "two products add to the result of one [check_pipeline_c12]; the second "
                                               "needs what tgpu.wgmma_wait gives for it";
      s.results[op.getAcc().getAsOpaquePointer()] = replaced;
    }
    if (s.underWay.size() >= mostUnderWay)
      return mlir::emitError(op.getLoc())
             << "more than " << int64_t(mostUnderWay)
             << " products can be under way here [check_pipeline_c14]; wait for earlier ones, also in each trip of a loop";
    s.results[op.getResult().getAsOpaquePointer()] = int(s.underWay.size());
    s.underWay.push_back(std::move(made));
    return success();
  }

  LogicalResult stepWait(tgpu::WgmmaWaitOp wait, State &s) {
    const size_t pending = size_t(wait.getPending()), under = s.underWay.size();
    const size_t done = under > pending ? under - pending : 0;
    for (const Product &product : ArrayRef(s.underWay).take_front(done))
      s.unordered.insert(product.buffers.begin(), product.buffers.end());
    s.underWay.erase(s.underWay.begin(), s.underWay.begin() + ptrdiff_t(done));
    for (auto &entry : s.results)
      if (entry.second >= 0)
        entry.second = entry.second < int(done) ? ended : entry.second - int(done);
    for (Value v : wait.getValues()) {
      const int *status = s.result(v);
      if (status && *status >= 0)
        return mlir::emitError(wait.getLoc())
               << "a wait that leaves " << int64_t(pending) << " products under way names the result of one of them, with "
               << int64_t(s.underWay.size()) - 1 - *status << " behind it [check_pipeline_c12]; leave fewer under way";
      if (status && *status == replaced)
        return mlir::emitError(wait.getLoc()) << "a wait names a result to which a later product adds "
                                                 "[check_pipeline_c12]; name the later result";
    }
    for (Value v : wait.getResults())
      s.results.erase(v.getAsOpaquePointer());
    return success();
  }

  func::FuncOp func;
  const RoleMatch *match;
  int64_t producerThreads = 0;
  llvm::DenseSet<int64_t> byThreads; ///< pipes with copies of threads
  llvm::DenseSet<int64_t> byUnit;    ///< pipes with loads of the TMA unit
};

struct CheckPipeline : sectile::passes::impl::CheckPipelinePassBase<CheckPipeline> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto all = func.getOps<tgpu::RolesOp>();
    std::optional<RoleMatch> match;
    if (!all.empty())
      match.emplace(*all.begin());
    const bool products = func.walk([](tgpu::WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!match && !products)
      return;
    if (failed(checkPlaces(func)) || failed(checkTurns(func)))
      return signalPassFailure();
    Checker checker(func, match ? &*match : nullptr);
    if (match) {
      tgpu::RolesOp roles = *all.begin();
      if (failed(checkCounts(func)) || failed(PairMatch(roles, *match).run()) || failed(checkProducer(roles, checker)) || failed(match->run()) ||
          failed(checkConsumers(roles.getConsumer().front(), roles.getLoc(), checker)))
        signalPassFailure();
    } else if (failed(checkConsumers(func.getBody().front(), func.getLoc(), checker))) {
      signalPassFailure();
    }
  }

  /// Warpgroups that share a program do not wait for each other but for turns.
  LogicalResult checkTurns(func::FuncOp func) {
    if (!func->hasAttr(tgpu::turnsAttr))
      return success();
    auto wrong = func.walk([](Operation *take) {
      if (!take->hasAttr(tgpu::turnTakeAttr))
        return WalkResult::advance();
      const tgpu::TurnFault fault = tgpu::faultOfTurn(take);
      if (!fault.at)
        return WalkResult::advance();
      mlir::emitError(fault.at->getLoc()) << "warpgroups would wait for each other for ever, as one has its turn at the products and "
                                          << fault.what << " [check_pipeline_c22]; leave the turns out";
      return WalkResult::interrupt();
    });
    return failure(wrong.wasInterrupted());
  }

  /// Arrivals that complete a phase, and the first phase that the producer looks for.
  LogicalResult checkCounts(func::FuncOp func) {
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    const int64_t warps = launch.getWarps(), threads = launch.getProducers() * 32;
    int64_t number = 0;
    for (tgpu::PipeCreateOp op : func.getOps<tgpu::PipeCreateOp>()) {
      // Also where the pipe is never filled: what a commit makes is looked at on its way.
      auto hasUser = [&](auto is) { return llvm::any_of(op->getUsers(), is); };
      const int64_t arrivals =
          (hasUser([](Operation *u) {
             auto acquire = dyn_cast<tgpu::PipeAcquireOp>(u);
             return acquire && acquire.getBytes();
           }) || !hasUser(llvm::IsaPred<tgpu::AsyncArriveOp>)) +
          (hasUser(llvm::IsaPred<tgpu::AsyncArriveOp>) ? threads : 0);
      if (int64_t(op.getFull()) != arrivals)
        return mlir::emitError(op.getLoc())
               << "a slot of pipe " << number << " is full after " << int64_t(op.getFull())
               << " arrivals, and the producer makes " << arrivals << " [check_pipeline_c1]; full must be " << arrivals;
      const int64_t releases = warps * PairMatch::blocksThatRelease(op);
      if (int64_t(op.getEmpty()) != releases)
        return mlir::emitError(op.getLoc())
               << "a slot of pipe " << number << " is empty after " << int64_t(op.getEmpty()) << " arrivals, and "
               << releases << " warps release it [check_pipeline_c2]; empty must be the warps of the launch"
               << (releases > warps ? ", of both blocks of a pair" : "");
      if (int64_t(op.getFree()) != 1)
        return mlir::emitError(op.getLoc())
               << "the producer's first wait for a slot of pipe " << number << " looks for parity "
               << int64_t(op.getFree())
               << ", and the phase before the first has parity 1 [check_pipeline_c3]; free must be 1";
      ++number;
    }
    return success();
  }

  LogicalResult checkProducer(tgpu::RolesOp roles, Checker &checker) {
    Operation *shared = nullptr;
    roles.getProducer().walk([&](Operation *op) {
      auto isTile = [](Type t) { return isa<RankedTensorType>(t); };
      if (isa<tgpu::BarrierOp, tgpu::ClusterStartOp, tgpu::WgmmaWaitOp, tgpu::PeerWaitOp>(op) ||
          llvm::any_of(op->getOperandTypes(), isTile) || llvm::any_of(op->getResultTypes(), isTile))
        shared = op;
    });
    if (shared)
      return mlir::emitError(shared->getLoc())
             << shared->getName().getStringRef()
             << " needs all threads, and the producer is one [check_pipeline_c4]; only the consumers may have it";
    States states{State()};
    if (failed(checker.run(roles.getProducer().front(), states)))
      return failure();
    for (const State &s : states)
      if (s.open >= 0)
        return mlir::emitError(roles.getLoc()) << "the producer ends with a slot of pipe " << s.open
                                               << " acquired and not committed [check_pipeline_c4]; commit it";
    return success();
  }

  LogicalResult checkConsumers(Block &block, Location loc, Checker &checker) {
    States states{State()};
    if (failed(checker.run(block, states)))
      return failure();
    for (const State &s : states) {
      for (const auto &[pipe, held] : s.held)
        if (!held.empty())
          return mlir::emitError(held.front()->getLoc())
                 << "the consumers end with " << int64_t(held.size()) << " slots of pipe " << pipe
                 << " not released [check_pipeline_c9]; release each slot that was waited for";
      if (!s.underWay.empty())
        return mlir::emitError(s.underWay.front().op->getLoc())
               << int64_t(s.underWay.size())
               << " products are under way at the end of the kernel [check_pipeline_c14]; wait for them";
    }
    return success();
  }

  /// Pipes lie beside each other, their barriers and all other buffers, within the launch's shared memory.
  LogicalResult checkPlaces(func::FuncOp func) {
    struct Place {
      Operation *op;
      int64_t begin, end;
    };
    SmallVector<Place> pipes, others;
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    func.walk([&](Operation *op) {
      if (auto pipe = dyn_cast<tgpu::PipeCreateOp>(op); pipe && pipe.getOffset() && pipe.getBarriers()) {
        auto type = pipe.getPipe().getType();
        const int64_t at = int64_t(*pipe.getOffset()), barriers = int64_t(*pipe.getBarriers());
        pipes.push_back({op, at, at + type.bytes()});
        pipes.push_back({op, barriers, barriers + type.barrierBytes()});
      } else if (auto alloc = dyn_cast<tgpu::BufferAllocOp>(op); alloc && alloc.getOffset()) {
        others.push_back({op, int64_t(*alloc.getOffset()), int64_t(*alloc.getOffset()) + alloc.getType().bytes()});
      }
    });
    for (size_t i = 0; i < pipes.size(); ++i) {
      const Place &a = pipes[i];
      if (launch && a.end > launch.getSharedBytes())
        return mlir::emitError(a.op->getLoc())
               << "a pipe ends at byte " << a.end << " of shared memory, and the launch has " << launch.getSharedBytes()
               << " [check_pipeline_c15]; run sectile-place-memory first";
      auto overlaps = [&](const Place &b) { return a.begin < b.end && b.begin < a.end; };
      SmallVector<Place> rest(pipes.begin() + i + 1, pipes.end());
      rest.append(others);
      for (const Place &b : rest)
        if (overlaps(b))
          return mlir::emitError(a.op->getLoc())
                 << "bytes " << a.begin << " to " << a.end << " of a pipe overlap bytes " << b.begin << " to " << b.end
                 << " of " << b.op->getName().getStringRef()
                 << " [check_pipeline_c15]; run sectile-place-memory first";
    }
    return success();
  }
};

} // namespace
