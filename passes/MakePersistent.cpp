// SPDX-License-Identifier: Apache-2.0
/// \file MakePersistent: blocks that go through several programs.
///
/// Before: one program per block. After: kernels with staged loads, and others where that is chosen, are a loop over programs, so
/// that loads of the next program are under way while this one ends (of the others by PrefetchLoads, which keep what is the
/// same for all programs in registers); programs that run at the same time lie close together (`group`), for the L2
/// cache. Where the trips of programs depend on their place along one axis, that axis changes slowest, the longest programs first,
/// and rounds go up and down the blocks, so that all have equally much to do. Every second program of a block goes backwards
/// through loops that only accumulate products (`snake`): it begins with the operands that the one before read last, which are
/// still in the L2 cache. Where SplitReduction marked the loop of the program (Stream-K), the launch may let the blocks share
/// the trips of the last programs: block b of G has the trips T b / G to T (b + 1) / G of all T of them, which are the end of one
/// program, whole ones, the beginning of another. Where ShareLoads formed pairs, the two blocks of a cluster go through pairs of
/// neighbours along one axis; where their number is odd, the last one has no neighbour, and the second block computes the same as
/// the first and stores nothing. Other kernels are unchanged.

#include "ir/Dependence.h"
#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"

#include "ir/ProgramOrder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Sequence.h"

namespace sectile::passes {
#define GEN_PASS_DEF_MAKEPERSISTENTPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

/// Rows of the iteration space that a group of programs covers: with 132 programs at a time of 128 x 256 elements, as
/// many rows as columns.
constexpr int64_t groupRows = 2048;

/// Programs of different lengths are taken in sections of about so many rounds: enough to even out the blocks' shares, few
/// enough for what they read to stay in the L2 cache.
constexpr int64_t roundsOfSection = 4;

/// How a value moves with the program's place along an axis.
enum class Trend { None, Up, Down, Unknown };

Trend sum(Trend x, Trend y) {
  return x == Trend::None ? y : y == Trend::None || x == y ? x : Trend::Unknown;
}
Trend opposite(Trend t) { return t == Trend::Up ? Trend::Down : t == Trend::Down ? Trend::Up : t; }

Trend trendOf(Value v, tileir::GridOp grid, unsigned axis) {
  if (v == grid.getResult(axis))
    return Trend::Up;
  auto isConstant = [](Value x) { return matchPattern(x, m_Constant()); };
  if (auto op = v.getDefiningOp<tileir::BinaryOp>()) {
    const Trend a = trendOf(op.getA(), grid, axis), b = trendOf(op.getB(), grid, axis);
    switch (op.getFn()) {
    case tileir::BinaryFn::k_add:
    case tileir::BinaryFn::k_min:
    case tileir::BinaryFn::k_max:
      return sum(a, b);
    case tileir::BinaryFn::k_sub:
      return sum(a, opposite(b));
    case tileir::BinaryFn::k_mul: {
      const bool left = isConstant(op.getA());
      IntegerAttr factor;
      if (!matchPattern(left ? op.getA() : op.getB(), m_Constant(&factor)))
        return a == Trend::None && b == Trend::None ? Trend::None : Trend::Unknown;
      const Trend other = left ? b : a;
      return factor.getInt() < 0 ? opposite(other) : other;
    }
    case tileir::BinaryFn::k_div:
    case tileir::BinaryFn::k_floordiv: {
      IntegerAttr divisor;
      if (b == Trend::None && matchPattern(op.getB(), m_Constant(&divisor)) && divisor.getInt() > 0)
        return a;
      return a == Trend::None && b == Trend::None ? Trend::None : Trend::Unknown;
    }
    default:
      return a == Trend::None && b == Trend::None ? Trend::None : Trend::Unknown;
    }
  }
  Operation *op = v.getDefiningOp();
  if (!op)
    return isa<func::FuncOp>(v.getParentRegion()->getParentOp()) ? Trend::None : Trend::Unknown;
  if (op == grid) // another axis
    return Trend::None;
  for (Value operand : op->getOperands())
    if (trendOf(operand, grid, axis) != Trend::None)
      return Trend::Unknown;
  return op->getNumRegions() ? Trend::Unknown : Trend::None;
}

/// How the trips of the loops around staged loads change from program to program. Loops behind each other share one range,
/// from the beginning of the first to the end of the last.
Trend trendOfTrips(func::FuncOp func, tileir::GridOp grid, unsigned axis) {
  scf::ForOp first, last;
  Trend inner = Trend::None;
  func.walk([&](tgpu::StageLoadOp load) {
    scf::ForOp outermost;
    for (auto loop = load->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>()) {
      if (outermost)
        inner = sum(inner, sum(trendOf(outermost.getUpperBound(), grid, axis), opposite(trendOf(outermost.getLowerBound(), grid, axis))));
      outermost = loop;
    }
    if (!outermost)
      return;
    first = first ? first : outermost;
    last = outermost;
  });
  return first ? sum(inner, sum(trendOf(last.getUpperBound(), grid, axis), opposite(trendOf(first.getLowerBound(), grid, axis)))) : Trend::None;
}

struct MakePersistent : sectile::passes::impl::MakePersistentPassBase<MakePersistent> {
  using MakePersistentPassBase::MakePersistentPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto grids = func.getOps<tileir::GridOp>();
    auto ranges = func.getOps<tgpu::SplitRangeOp>();
    tgpu::SplitRangeOp range = ranges.empty() ? tgpu::SplitRangeOp() : *ranges.begin();
    isStaged = func.walk([](tgpu::StageLoadOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (grids.empty() || (range && !range.getStream()) || !(isStaged ? blocksPerProgram(func) == 1 : goesThroughRows(func))) {
      func->removeAttr(tgpu::streamRangeAttr);
      return;
    }
    tileir::GridOp grid = *grids.begin();
    // The axis along which programs have more or fewer trips, if there is one.
    SmallVector<unsigned> axes;
    Trend trips = Trend::None;
    for (unsigned d = 0; d < grid.getNumResults(); ++d)
      if (const Trend t = trendOfTrips(func, grid, d); t != Trend::None) {
        axes.push_back(d);
        trips = t;
      }
    const bool isOrdered = axes.size() == 1 && trips != Trend::Unknown && raster == 0;
    Location loc = grid.getLoc();
    Block &body = func.getBody().front();
    OpBuilder b(&body, body.begin());
    auto blocks = tgpu::BlockNumberOp::create(b, loc, b.getIndexType(), b.getIndexType());
    // Of a program, or of a pair of them.
    SmallVector<int64_t> sizes(grid.getSizes());
    auto pair = func->getAttrOfType<IntegerAttr>(tgpu::pairAttr);
    if (pair)
      sizes[size_t(pair.getInt())] *= 2;
    Value programs = tgpu::ProgramsOp::create(b, loc, b.getIndexType(), grid.getX(), sizes);
    Shares shares;
    if (range)
      shares = share(b, range, programs, blocks);
    std::optional<Order> order;
    if (isOrdered && !range)
      order = orderOf(b, grid, sizes, axes.front(), programs, blocks);
    auto loop = scf::ForOp::create(b, loc, blocks.getNumber(), range ? shares.end : order ? order->end : programs, blocks.getCount());
    Operation *yield = loop.getBody()->getTerminator();
    for (Operation &op : llvm::make_early_inc_range(llvm::make_range(std::next(loop->getIterator()), body.end())))
      if (!op.hasTrait<OpTrait::IsTerminator>())
        op.moveBefore(yield);
    int64_t group = 1;
    if (sizes.size() > 1 && (raster > 0 || (axes.empty() && sharesAcross(grid))))
      group = raster > 0 ? raster : std::clamp<int64_t>(groupRows / sizes[sizes.size() - 2], 1, 16);
    b.setInsertionPoint(grid);
    Value number = loop.getInductionVar();
    if (range) {
      b.setInsertionPointToStart(loop.getBody());
      number = unit(b, range, shares, number, blocks);
      b.setInsertionPoint(grid);
    }
    if (order) {
      number = order->programAt(b, loc, number, trips == Trend::Up);
      func->setAttr(tgpu::programOrderAttr, b.getDenseI64ArrayAttr({int64_t(axes.front()), trips == Trend::Up}));
    }
    auto program = tgpu::ProgramOp::create(b, loc, grid.getResultTypes(), number, grid.getX(), sizes, group);
    SmallVector<Value> offsets(program.getOffsets());
    Value isOwn;
    if (pair)
      isOwn = takePart(b, grid, unsigned(pair.getInt()), offsets);
    grid.replaceAllUsesWith(offsets);
    grid.erase();
    if (isOwn)
      storeIf(loop, isOwn);
    if (snake != 1)
      turn(loop, blocks.getNumber(), blocks.getCount());
    func->setAttr(tgpu::persistentAttr, b.getUnitAttr());
    if (!isStaged)
      noteChoice(func, "persistent: as many blocks as run at once go through all programs");
    hoist(loop);
  }

private:
  bool isStaged = false; ///< the kernel has staged loads

  // --- pairs

  /// Makes the offsets of a pair those of this block's program. Returns whether that is not the first block's as well.
  static Value takePart(OpBuilder &b, tileir::GridOp grid, unsigned axis, MutableArrayRef<Value> offsets) {
    using enum tileir::BinaryFn;
    Location loc = grid.getLoc();
    const int64_t size = grid.getSizes()[axis];
    Value rank = tgpu::PairRankOp::create(b, loc, b.getIndexType());
    Value extent = tileir::DimOp::create(b, loc, grid.getX(), int64_t(axis));
    auto place = [&](Value part) {
      return binary(b, loc, k_add, offsets[axis], binary(b, loc, k_mul, part, indexConstant(b, loc, size)));
    };
    Value isOwn = compare(b, loc, tileir::ComparePred::k_lt, place(rank), extent);
    offsets[axis] = place(select(b, loc, isOwn, rank, indexConstant(b, loc, 0)));
    return isOwn;
  }

  static void storeIf(scf::ForOp loop, Value condition) {
    SmallVector<Operation *> stores;
    loop.walk([&](Operation *op) {
      if (isa<tgpu::GlobalStoreOp, tgpu::BulkStoreOp>(op))
        stores.push_back(op);
    });
    for (Operation *op : stores) {
      OpBuilder b(op);
      auto branch = scf::IfOp::create(b, op->getLoc(), condition, /*withElseRegion=*/false);
      op->moveBefore(branch.thenBlock()->getTerminator());
    }
  }

  // --- Stream-K

  /// What a block knows of the programs that all blocks share.
  struct Shares {
    Value trips;       ///< of one program
    Value all;         ///< of all shared programs, at least 1
    Value whole;       ///< programs before the shared ones
    Value first, last; ///< of this block's share, the latter exclusive
    Value program;     ///< that the first is in
    Value end;         ///< of the numbers of what blocks go through: whole programs, then for each block the pieces of its share
  };

  static Shares share(OpBuilder &b, tgpu::SplitRangeOp range, Value programs, tgpu::BlockNumberOp blocks) {
    using enum tileir::BinaryFn;
    Location loc = range.getLoc();
    auto op = [&](tileir::BinaryFn fn, Value x, Value y) { return binary(b, loc, fn, x, y); };
    auto number = [&](int64_t n) { return indexConstant(b, loc, n); };
    // The bounds are lengths and arguments: they can stand at the beginning.
    SmallVector<Operation *> needed;
    auto before = [&](auto &self, Value v) -> void {
      Operation *def = v.getDefiningOp();
      if (!def || def == blocks || !def->isBeforeInBlock(range) || llvm::is_contained(needed, def))
        return;
      for (Value operand : def->getOperands())
        self(self, operand);
      needed.push_back(def);
    };
    for (Value v : {range.getLower(), range.getUpper(), range.getStep()})
      before(before, v);
    for (Operation *def : needed)
      def->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    Value lower = range.getLower(), upper = range.getUpper(), step = range.getStep(), one = number(1);
    Value shared = tgpu::SharedProgramsOp::create(b, loc, b.getIndexType(), lower, upper, step);
    Shares s;
    s.trips = op(k_max, one, op(k_div, op(k_add, op(k_sub, upper, lower), op(k_sub, step, one)), step));
    Value all = op(k_mul, shared, s.trips);
    s.all = op(k_max, one, all);
    s.whole = op(k_sub, programs, shared);
    s.first = op(k_div, op(k_mul, all, blocks.getNumber()), blocks.getCount());
    s.last = op(k_div, op(k_mul, all, op(k_add, blocks.getNumber(), one)), blocks.getCount());
    s.program = op(k_div, s.first, s.trips);
    Value isSome = compare(b, loc, tileir::ComparePred::k_lt, s.first, s.last);
    Value pieces = op(k_add, op(k_sub, op(k_div, op(k_sub, s.last, one), s.trips), s.program), one);
    s.end = op(k_add, s.whole, op(k_mul, select(b, loc, isSome, pieces, number(0)), blocks.getCount()));
    return s;
  }

  /// Tells the loop of the program and what puts its parts together which piece this is. Returns the program's number.
  Value unit(OpBuilder &b, tgpu::SplitRangeOp range, const Shares &s, Value place, tgpu::BlockNumberOp blocks) {
    using enum tileir::BinaryFn;
    Location loc = range.getLoc();
    auto op = [&](tileir::BinaryFn fn, Value x, Value y) { return binary(b, loc, fn, x, y); };
    auto number = [&](int64_t n) { return indexConstant(b, loc, n); };
    Value isShared = compare(b, loc, tileir::ComparePred::k_ge, place, s.whole), one = number(1);
    auto ifShared = [&](Value x, Value otherwise) { return select(b, loc, isShared, x, otherwise); };
    Value piece = op(k_div, op(k_sub, place, s.whole), blocks.getCount());
    Value program = ifShared(op(k_add, s.program, piece), number(0)); // among the shared ones
    Value begin = op(k_mul, program, s.trips), end = op(k_add, begin, s.trips);
    Value first = op(k_max, begin, s.first), last = op(k_min, end, s.last);
    // Block b has trip t if T b / G <= t, rounded down, and the next block has not.
    auto blockOf = [&](Value trip) {
      return op(k_div, op(k_sub, op(k_mul, op(k_add, trip, one), blocks.getCount()), one), s.all);
    };
    Value firstBlock = blockOf(begin), lastBlock = blockOf(op(k_sub, end, one));
    Value part = ifShared(op(k_sub, blocks.getNumber(), firstBlock), number(0));
    Value parts = ifShared(op(k_add, op(k_sub, lastBlock, firstBlock), one), one);
    range.getPart().replaceAllUsesWith(part);
    range.getFirst().replaceAllUsesWith(ifShared(op(k_sub, first, begin), number(0)));
    range.getTrips().replaceAllUsesWith(ifShared(op(k_sub, last, first), number(-1)));
    // Each boundary between parts or programs is one place further.
    Value where = op(k_add, program, firstBlock);
    getOperation().walk([&](tgpu::CombinePartsOp combine) { combine.getShareMutable().assign(ValueRange{program, where, part, parts}); });
    range.erase();
    return ifShared(op(k_add, s.whole, program), place);
  }

  // --- order

  /// Whether programs that lie beside each other across the last axis but one share what others along the last axis load anew:
  /// some loads depend on the place along the last axis alone. Else all that programs of a row share is what they have in common.
  bool sharesAcross(tileir::GridOp grid) {
    const unsigned last = grid.getNumResults() - 1;
    const tileir::Dependence onLast(grid.getResult(last)), onOther(grid.getResult(last - 1));
    return !isStaged || getOperation().walk([&](tgpu::StageLoadOp load) {
                          auto depends = [&](const tileir::Dependence &d) {
                            return llvm::any_of(load.getOffsets(), [&](Value v) { return d.of(v); });
                          };
                          return depends(onLast) && !depends(onOther) ? WalkResult::interrupt() : WalkResult::advance();
                        }).wasInterrupted();
  }

  /// The order of programs whose length depends on their place along an axis. The other axes are in sections, and programs of
  /// a section come longest first; see ir/ProgramOrder.h. Each section starts with block 0 and goes up and down the blocks
  /// round by round, so that none always has the longest of its round, and those that have no program in its last round are
  /// those that had the longest one. In 32 bits: a launch has fewer than 2^31 programs.
  struct Order {
    Value block, count;   ///< this block, and how many there are
    Value along, inner;   ///< programs along the axis, and of the axes behind it, if there are some
    Value others, height; ///< programs of the other axes, and of a section's
    Value whole;          ///< sections that are not cut off
    Value share;          ///< programs that this block has of each of them
    Value end;            ///< of the places that this block goes through, index

    /// The number of the program at a place of this block.
    Value programAt(OpBuilder &b, Location loc, Value placeOfBlock, bool descending) const {
      using enum tileir::BinaryFn;
      auto op = [&](tileir::BinaryFn fn, Value x, Value y) { return binary(b, loc, fn, x, y); };
      Value one = number(b, loc, 1), place = op(k_div, narrow(b, loc, placeOfBlock), count);
      Value section = op(k_min, whole, op(k_div, place, share)), round = op(k_sub, place, op(k_mul, section, share));
      Value isBack = compare(b, loc, tileir::ComparePred::k_eq, op(k_bitand, round, one), one);
      Value in = op(k_add, op(k_mul, round, count), select(b, loc, isBack, op(k_sub, op(k_sub, count, one), block), block));
      Value firstOther = op(k_mul, section, height), high = op(k_min, height, op(k_sub, others, firstOther));
      Value at = op(k_div, in, high), other = op(k_add, firstOther, op(k_rem, in, high));
      if (descending)
        at = op(k_sub, op(k_sub, along, one), at);
      Value result = inner ? op(k_add, op(k_mul, op(k_add, op(k_mul, op(k_div, other, inner), along), at), inner), op(k_rem, other, inner))
                           : op(k_add, op(k_mul, other, along), at);
      return tileir::CastOp::create(b, loc, b.getIndexType(), result);
    }
    static Value number(OpBuilder &b, Location loc, int64_t n) { return constant(b, loc, b.getI32Type(), b.getI32IntegerAttr(int32_t(n))); }
    static Value narrow(OpBuilder &b, Location loc, Value v) { return tileir::CastOp::create(b, loc, b.getI32Type(), v); }
  };

  static Order orderOf(OpBuilder &b, tileir::GridOp grid, ArrayRef<int64_t> sizes, unsigned axis, Value programs, tgpu::BlockNumberOp blocks) {
    using enum tileir::BinaryFn;
    Location loc = grid.getLoc();
    auto op = [&](tileir::BinaryFn fn, Value x, Value y) { return binary(b, loc, fn, x, y); };
    auto number = [&](int64_t n) { return Order::number(b, loc, n); };
    Value one = number(1), none = number(0);
    Order o;
    o.block = Order::narrow(b, loc, blocks.getNumber());
    o.count = Order::narrow(b, loc, blocks.getCount());
    for (unsigned d = axis; d < grid.getNumResults(); ++d) {
      Value dim = tileir::DimOp::create(b, loc, grid.getX(), int64_t(d));
      Value n = Order::narrow(b, loc, binary(b, loc, k_div, binary(b, loc, k_add, dim, indexConstant(b, loc, sizes[d] - 1)), indexConstant(b, loc, sizes[d])));
      if (d == axis)
        o.along = op(k_max, one, n);
      else
        o.inner = o.inner ? op(k_mul, o.inner, n) : n;
    }
    o.others = op(k_div, Order::narrow(b, loc, programs), o.along);
    o.height = op(k_max, one, op(k_div, op(k_mul, number(roundsOfSection), o.count), o.along));
    o.whole = op(k_div, o.others, o.height);
    // Of a section of so many programs.
    auto share = [&](Value ofSection) {
      Value before = op(k_div, op(k_sub, op(k_add, ofSection, o.count), one), o.count); // rounds, rounded up
      before = op(k_sub, before, one);
      Value left = op(k_sub, ofSection, op(k_mul, before, o.count)); // for the last round
      Value isBack = compare(b, loc, tileir::ComparePred::k_eq, op(k_bitand, before, one), one);
      Value turned = select(b, loc, isBack, op(k_sub, op(k_sub, o.count, one), o.block), o.block);
      Value takes = compare(b, loc, tileir::ComparePred::k_lt, turned, left);
      return op(k_add, before, select(b, loc, takes, one, none));
    };
    // Not 0: a section that is not cut off fills two rounds.
    o.share = op(k_max, one, share(op(k_mul, o.height, o.along)));
    Value cut = op(k_sub, o.others, op(k_mul, o.whole, o.height));
    Value rounds = op(k_add, op(k_mul, o.whole, o.share), share(op(k_mul, cut, o.along)));
    o.end = binary(b, loc, k_add, blocks.getNumber(),
                   binary(b, loc, k_mul, tileir::CastOp::create(b, loc, b.getIndexType(), rounds), blocks.getCount()));
    return o;
  }

  /// Loops of the program with staged loads whose iterations may come in any order go backwards in every second program.
  void turn(scf::ForOp programs, Value first, Value step) {
    SmallVector<scf::ForOp> loops;
    for (auto loop : programs.getBody()->getOps<scf::ForOp>())
      if (!loop.getBody()->getOps<tgpu::StageLoadOp>().empty() && onlyAccumulates(loop))
        loops.push_back(loop);
    if (loops.empty())
      return;
    using tileir::BinaryFn;
    Location loc = programs.getLoc();
    OpBuilder b(programs.getBody(), programs.getBody()->begin());
    Value one = indexConstant(b, loc, 1);
    Value turn = binary(b, loc, BinaryFn::k_div, binary(b, loc, BinaryFn::k_sub, programs.getInductionVar(), first), step);
    Value isBack = compare(b, loc, tileir::ComparePred::k_eq, binary(b, loc, BinaryFn::k_bitand, turn, one), one);
    for (scf::ForOp loop : loops) {
      b.setInsertionPoint(loop);
      Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), by = loop.getStep();
      // The last value of the counter, and what both orders add up to.
      Value trips = binary(b, loc, BinaryFn::k_div, binary(b, loc, BinaryFn::k_sub, binary(b, loc, BinaryFn::k_sub, upper, lower), one), by);
      Value ends = binary(b, loc, BinaryFn::k_add, binary(b, loc, BinaryFn::k_add, lower, lower), binary(b, loc, BinaryFn::k_mul, trips, by));
      b.setInsertionPointToStart(loop.getBody());
      Value counter = loop.getInductionVar();
      Value back = binary(b, loc, BinaryFn::k_sub, ends, counter);
      Value place = select(b, loc, isBack, back, counter);
      counter.replaceUsesWithIf(place, [&](OpOperand &use) { return use.getOwner() != back.getDefiningOp() && use.getOwner() != place.getDefiningOp(); });
    }
  }

  /// Every value that the loop carries is a sum of products of its iterations, and it does nothing else that others see.
  static bool onlyAccumulates(scf::ForOp loop) {
    for (Operation &op : loop.getBody()->without_terminator())
      if (op.getNumRegions() || (!isa<tgpu::WgmmaOp, tgpu::WgmmaWaitOp, tgpu::StageLoadOp, tgpu::GlobalLoadOp, tgpu::GlobalGatherOp, tgpu::CopyOutOp>(op) && !isMemoryEffectFree(&op)))
        return false;
    for (auto [arg, yielded] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues())) {
      Value sum = yielded;
      while (true) {
        if (auto wait = sum.getDefiningOp<tgpu::WgmmaWaitOp>())
          sum = wait.getValues()[cast<OpResult>(sum).getResultNumber()];
        else if (auto product = sum.getDefiningOp<tgpu::WgmmaOp>(); product && product.getResult().hasOneUse())
          sum = product.getAcc();
        else
          break;
        if (sum.getParentBlock() != loop.getBody())
          return false;
      }
      if (sum != arg || !arg.hasOneUse())
        return false;
    }
    return loop.getNumRegionIterArgs() > 0;
  }

  /// Kernels without staged loads whose blocks go through several programs.
  bool goesThroughRows(func::FuncOp func) {
    const bool hasProduct = func.walk([](Operation *op) {
                                  return isa<tgpu::MmaSyncOp, tgpu::MmaFmaOp, tgpu::WgmmaOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
                                }).wasInterrupted();
    return persistent == 2 && !hasProduct;
  }

  /// Tiles in registers cost them in all programs: names of others and what is loaded, but nothing computed from it.
  bool keepsInRegisters(Operation *op) {
    return isStaged || !isTile(op->getResult(0)) || isa<tgpu::GlobalLoadOp, tileir::ReshapeOp, tileir::BroadcastOp, tileir::ConstantOp, tileir::SplatOp, tileir::IotaOp>(op);
  }

  /// What is the same for every program, and what no program writes, is read once per block: single elements, and tiles
  /// of kernels without staged loads.
  void hoist(scf::ForOp loop) {
    func::FuncOp func = getOperation();
    for (Operation &op : llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
      const bool outside = llvm::all_of(op.getOperands(), [&](Value v) { return loop.isDefinedOutsideOfLoop(v); });
      if (!outside || op.getNumRegions() || op.getNumResults() == 0 || !keepsInRegisters(&op))
        continue;
      Value x;
      if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op))
        x = load.getX();
      else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(op))
        x = gather.getX();
      if (x ? (isStaged && isTile(op.getResult(0))) || isWritten(func, x) : !isMemoryEffectFree(&op))
        continue;
      op.moveBefore(loop);
    }
  }
  static bool isWritten(func::FuncOp func, Value tensor) {
    return func.walk([&](tgpu::GlobalStoreOp store) {
                 return mayShareMemory(func, store.getX(), tensor) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted() ||
           func.walk([&](tgpu::BulkStoreOp store) {
                 return mayShareMemory(func, store.getX(), tensor) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted();
  }
};

} // namespace
