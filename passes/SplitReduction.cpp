// SPDX-License-Identifier: Apache-2.0
/// \file SplitReduction: a loop that only accumulates can be shared by several blocks.
///
/// Before: resolved tails, any loops. After: the same, or the kernel's one loop goes through this part's share
/// of its trips, and what follows it runs in the part that arrives last, with the totals of all parts.
///
/// A kernel such as the sums of columns has few programs, each with a long loop. Its loop is shared when every
/// value that it carries is acc = acc fn f(i) with an associative and commutative fn and f the same whatever
/// the accs are: then the trips may be taken in any grouping. Part 0 starts with the loop's own initial values,
/// the others with values that change nothing. How many parts there are is known at the launch. A trip may also write what no
/// other one touches.
///
/// With `streamk` the loop of a product is marked so that MakePersistent lets all blocks share the trips of the last programs;
/// without, what a launch needs to know to ask for that is noted on the function.

#include "passes/Passes.h"
#include "passes/TailExist.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile::passes {
#define GEN_PASS_DEF_SPLITREDUCTIONPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Trips of a part, at least, so that a loop is worth starting.
constexpr int64_t leastTrips = 4;
/// What a part loads is at least this many times what it leaves for the others to add up.
constexpr int64_t loadsPerPartial = 8;

bool writes(Operation *op) {
  if (auto effects = dyn_cast<MemoryEffectOpInterface>(op))
    return effects.hasEffect<MemoryEffects::Write>();
  return !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() && !isMemoryEffectFree(op);
}
bool writesInside(Operation *op) {
  return op->walk([](Operation *o) { return writes(o) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}
bool loopsInside(Operation *op) {
  return op
      ->walk([](Operation *o) {
        return isa<scf::ForOp, scf::WhileOp>(o) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The axis along which a tile lies in another place of memory in every trip: its offset there is the loop's counter, which
/// moves by at least the tile's length. -1: none.
int64_t axisOfTrips(scf::ForOp loop, ValueRange offsets, Type tile) {
  std::optional<int64_t> step = IndexFacts::constant(loop.getStep());
  for (auto [d, offset] : llvm::enumerate(offsets))
    if (offset == loop.getInductionVar() && step && *step >= shapeOf(tile)[d])
      return int64_t(d);
  return -1;
}

/// What the loop writes is written by one trip each, and no other trip, nor code before the loop, reads it: then trips may be
/// taken by any block, in any order.
bool writesApart(func::FuncOp func, scf::ForOp loop) {
  struct Access {
    Value tensor;
    int64_t axis; ///< see axisOfTrips
  };
  SmallVector<Access> written, all;
  bool known = true;
  for (Operation &op : func.getBody().front()) {
    op.walk([&](Operation *o) {
      if (auto store = dyn_cast<tgpu::GlobalStoreOp>(o); store && loop->isProperAncestor(o)) {
        written.push_back({store.getX(), axisOfTrips(loop, store.getOffsets(), store.getValue().getType())});
        all.push_back(written.back());
      } else if (auto load = dyn_cast<tgpu::GlobalLoadOp>(o)) {
        all.push_back({load.getX(), loop->isProperAncestor(o) ? axisOfTrips(loop, load.getOffsets(), load.getType()) : -1});
      } else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(o)) {
        all.push_back({gather.getX(), -1});
      } else if (loop->isProperAncestor(o)) {
        known &= o->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || !writes(o);
      }
    });
    if (&op == loop)
      break;
  }
  return known && llvm::all_of(written, [&](const Access &w) {
           return w.axis >= 0 && llvm::all_of(all, [&](const Access &a) {
                    return (a.tensor == w.tensor && a.axis == w.axis) || !mayShareMemory(func, w.tensor, a.tensor);
                  });
         });
}

/// The loop that all of the kernel's work is in: its only one, directly in its body, with no write before its
/// end but what its trips write apart from each other. Code before it is run by every part, code after it by the last one.
scf::ForOp onlyLoop(func::FuncOp func) {
  scf::ForOp loop;
  for (Operation &op : func.getBody().front()) {
    if (auto candidate = dyn_cast<scf::ForOp>(op); candidate && !loop) {
      loop = candidate;
      if (writesInside(loop) && !writesApart(func, loop))
        return {};
      continue;
    }
    if (loopsInside(&op) || (!loop && writesInside(&op)))
      return {};
  }
  return loop;
}

/// How a carried value grows, if it only accumulates.
class Accumulation {
public:
  Accumulation(scf::ForOp loop, BlockArgument arg) : loop(loop), arg(arg) {}

  std::optional<BinaryFn> find() {
    Value next = loop.getTiedLoopYieldedValue(arg)->get();
    if (next == arg || !follow(next) || !fn)
      return std::nullopt;
    // The carried value and what becomes of it are used for nothing else.
    links.insert(loop.getTiedLoopYieldedValue(arg));
    for (Value v : chain)
      for (OpOperand &use : v.getUses())
        if (!links.contains(&use))
          return std::nullopt;
    return fn;
  }
  bool hasProduct() const { return product; }

private:
  bool accumulates(BinaryFn f) {
    if (fn && *fn != f)
      return false;
    fn = f;
    return true;
  }
  static bool isAssociative(BinaryFn f, Type element) {
    bool isFloat = isa<FloatType>(element);
    if (isFloat && element.getIntOrFloatBitWidth() < 16)
      return false;
    switch (f) {
    case BinaryFn::k_add:
    case BinaryFn::k_mul:
      // Parts of narrow sums would be rounded more often than the sums.
      return !element.isInteger(1) && !(isFloat && element.getIntOrFloatBitWidth() < 32);
    case BinaryFn::k_max:
    case BinaryFn::k_min:
    case BinaryFn::k_maxnum:
    case BinaryFn::k_minnum:
      return !element.isInteger(1);
    case BinaryFn::k_bitand:
    case BinaryFn::k_bitor:
    case BinaryFn::k_bitxor:
      return !isFloat;
    default:
      return false;
    }
  }

  /// True if `v` is the carried value after some accumulations.
  bool follow(Value v) {
    if (!chain.insert(v))
      return v == arg || followed.contains(v);
    if (v == arg)
      return true;
    Operation *op = v.getDefiningOp();
    if (!op || !loop->isProperAncestor(op))
      return drop(v);
    auto through = [&](OpOperand &use) {
      links.insert(&use);
      return follow(use.get());
    };
    bool ok = llvm::TypeSwitch<Operation *, bool>(op)
                  .Case([&](BinaryOp b) {
                    bool subtracts = b.getFn() == BinaryFn::k_sub;
                    BinaryFn f = subtracts ? BinaryFn::k_add : b.getFn();
                    if (!isAssociative(f, elementOf(b.getType())) || !accumulates(f))
                      return false;
                    if (reaches(b.getA()))
                      return through(b.getAMutable());
                    return !subtracts && through(b.getBMutable());
                  })
                  .Case([&](MmaOp mma) {
                    product = true;
                    return isAssociative(BinaryFn::k_add, elementOf(mma.getType())) && accumulates(BinaryFn::k_add) && through(mma.getAccMutable());
                  })
                  .Case([&](SelectOp s) { return through(s.getAMutable()) && through(s.getBMutable()); })
                  .Case([&](scf::IfOp branch) {
                    unsigned n = cast<OpResult>(v).getResultNumber();
                    return branch.elseBlock() && through(branch.thenYield()->getOpOperand(n)) &&
                           through(branch.elseYield()->getOpOperand(n));
                  })
                  .Case([&](scf::ForOp inner) {
                    unsigned n = cast<OpResult>(v).getResultNumber();
                    BlockArgument carried = inner.getRegionIterArg(n);
                    chain.insert(carried);
                    followed.insert(carried);
                    return through(*inner.getTiedLoopInit(carried)) &&
                           through(*inner.getTiedLoopYieldedValue(carried));
                  })
                  .Default([](Operation *) { return false; });
    if (ok)
      followed.insert(v);
    return ok ? true : drop(v);
  }
  bool drop(Value v) {
    chain.remove(v);
    return false;
  }

  /// True if `v` depends on the carried value.
  bool reaches(Value v) {
    if (v == arg || followed.contains(v))
      return true;
    Operation *op = v.getDefiningOp();
    if (!op || !loop->isProperAncestor(op))
      return false;
    auto [it, isNew] = reached.try_emplace(op, false);
    if (!isNew)
      return it->second;
    bool any = op->walk([&](Operation *inner) {
                   return llvm::any_of(inner->getOperands(), [&](Value o) { return reaches(o); })
                              ? WalkResult::interrupt()
                              : WalkResult::advance();
                 }).wasInterrupted();
    return reached[op] = any;
  }

  scf::ForOp loop;
  BlockArgument arg;
  std::optional<BinaryFn> fn;
  bool product = false;
  llvm::SmallSetVector<Value, 8> chain;
  llvm::DenseSet<Value> followed;
  llvm::SmallPtrSet<OpOperand *, 8> links;
  DenseMap<Operation *, bool> reached;
};

/// The value that changes nothing: fn(neutral, x) == x for every x.
TypedAttr neutralOf(BinaryFn fn, Type element) {
  auto isFloat = dyn_cast<FloatType>(element);
  unsigned bits = isa<IndexType>(element) ? 64 : element.getIntOrFloatBitWidth();
  switch (fn) {
  case BinaryFn::k_add:
    return isFloat ? TypedAttr(FloatAttr::get(element, -0.0)) : zeroOf(element);
  case BinaryFn::k_mul:
    return identityOf(ReduceKind::k_prod, element);
  case BinaryFn::k_max:
    return identityOf(ReduceKind::k_max, element);
  case BinaryFn::k_min:
    return identityOf(ReduceKind::k_min, element);
  case BinaryFn::k_maxnum:
  case BinaryFn::k_minnum:
    if (isFloat)
      return FloatAttr::get(element, llvm::APFloat::getNaN(isFloat.getFloatSemantics()));
    return identityOf(fn == BinaryFn::k_maxnum ? ReduceKind::k_max : ReduceKind::k_min, element);
  case BinaryFn::k_bitand:
    return IntegerAttr::get(element, APInt::getAllOnes(bits));
  default:
    return zeroOf(element);
  }
}

/// Starting every part with `init` is the same as starting only the first one with it.
bool changesNothing(Value init, BinaryFn fn, TypedAttr neutral) {
  Attribute value;
  if (!matchPattern(init, m_Constant(&value)))
    return false;
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  // A sum that starts with +0 is never -0, so +0 is as good.
  return value == Attribute(neutral) || (fn == BinaryFn::k_add && isZero(value));
}

int64_t bytesOf(Type type) {
  int64_t count = 1;
  for (int64_t length : shapeOf(type))
    count *= length;
  return count * int64_t(byteSize(*dtypeOfType(elementOf(type))));
}

struct SplitReduction : sectile::passes::impl::SplitReductionPassBase<SplitReduction> {
  using SplitReductionPassBase::SplitReductionPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (parts == 1 || !func->hasAttr(kernelAttr))
      return;
    scf::ForOp loop = onlyLoop(func);
    if (!loop || loop.getUnsignedCmp() || loop.getNumRegionIterArgs() == 0 || !isCountable(loop))
      return;
    SmallVector<BinaryFn> functions;
    bool hasProduct = false;
    for (BlockArgument arg : loop.getRegionIterArgs()) {
      Accumulation accumulation(loop, arg);
      auto fn = accumulation.find();
      if (!fn)
        return;
      hasProduct |= accumulation.hasProduct();
      functions.push_back(*fn);
    }
    // Products keep the tensor cores busy with few blocks, and their sums are large: only when asked for. The launch may ask
    // for shared programs.
    if (hasProduct && parts == 0 && streamk != 2) {
      if (streamk == 0)
        noteRange(loop);
      return;
    }
    split(loop, functions, hasProduct && parts == 0);
  }

private:
  static bool isCountable(scf::ForOp loop) {
    auto step = tgpu::launchNumber(loop.getStep());
    return isa<IndexType>(loop.getInductionVar().getType()) && tgpu::launchNumber(loop.getLowerBound()) &&
           tgpu::launchNumber(loop.getUpperBound()) && step && step->arg < 0 && step->value > 0;
  }

  /// Cycles of a multiprocessor's tensor cores for one trip, at 2048 multiply-adds of 16 bits per cycle (hardware tables of
  /// sm_90), half as many of 32 bits.
  static int64_t cyclesOfTrip(scf::ForOp loop) {
    constexpr int64_t bytesPerCycle = 4096;
    int64_t cycles = 0;
    loop->walk([&](MmaOp op) {
      const ArrayRef<int64_t> a = shapeOf(op.getA().getType()), b = shapeOf(op.getB().getType());
      cycles += a[0] * a[1] * b[1] * int64_t(byteSize(*dtypeOfType(elementOf(op.getA().getType())))) / bytesPerCycle;
    });
    return cycles;
  }

  /// On the function: what a launch must know to decide whether a variant with shared programs pays.
  void noteRange(scf::ForOp loop) {
    SmallVector<int64_t> range;
    for (Value v : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()}) {
      const LaunchNumber n = *tgpu::launchNumber(v);
      range.append({n.arg, n.axis, n.value});
    }
    int64_t bytes = 0;
    for (Value v : loop.getResults())
      bytes += bytesOf(v.getType());
    range.append({bytes, cyclesOfTrip(loop)});
    getOperation()->setAttr(tgpu::streamRangeAttr, DenseI64ArrayAttr::get(&getContext(), range));
  }

  int64_t tripsWorthIt(scf::ForOp loop) {
    int64_t loaded = 0, kept = 0;
    loop->walk([&](Operation *op) {
      if (isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(op))
        loaded += bytesOf(op->getResult(0).getType());
    });
    for (Value v : loop.getResults()) {
      // A reduction that follows happens before the parts meet.
      auto reduce = v.hasOneUse() ? dyn_cast<ReduceOp>(*v.user_begin()) : ReduceOp();
      kept += bytesOf(reduce ? reduce.getType() : v.getType());
    }
    return std::max(leastTrips, (loadsPerPartial * kept + loaded) / std::max<int64_t>(loaded, 1));
  }

  /// What is to be combined for the result of a loop: if it is only folded by the same function, what is left
  /// of it. Moves those reductions to the insertion point.
  static SmallVector<Value> folded(Value result, BinaryFn fn, OpBuilder &b) {
    static constexpr std::pair<BinaryFn, ReduceKind> kinds[] = {
        {BinaryFn::k_add, ReduceKind::k_sum},       {BinaryFn::k_mul, ReduceKind::k_prod},
        {BinaryFn::k_max, ReduceKind::k_max},       {BinaryFn::k_min, ReduceKind::k_min},
        {BinaryFn::k_maxnum, ReduceKind::k_maxnum}, {BinaryFn::k_minnum, ReduceKind::k_minnum}};
    Type element = elementOf(result.getType());
    // Sums of small floats are kept in f32 within a reduction: a part would be rounded on its own.
    bool rounds = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    auto folds = [&](Operation *user) {
      auto reduce = dyn_cast<ReduceOp>(user);
      return reduce && !rounds && llvm::is_contained(kinds, std::pair(fn, reduce.getKind()));
    };
    if (result.use_empty() || !llvm::all_of(result.getUsers(), folds))
      return {result};
    SmallVector<Value> values;
    SmallVector<Operation *> users(llvm::make_range(result.user_begin(), result.user_end()));
    for (Operation *reduce : llvm::reverse(users)) {
      if (reduce == &*b.getInsertionPoint()) // it is there already
        b.setInsertionPointAfter(reduce);
      else
        reduce->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
      llvm::append_range(values, folded(reduce->getResult(0), fn, b));
    }
    return values;
  }

  void split(scf::ForOp loop, ArrayRef<BinaryFn> functions, bool stream) {
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    auto range =
        tgpu::SplitRangeOp::create(b, loc, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(),
                                   parts == 0 ? tripsWorthIt(loop) : 1, parts, stream);
    if (stream)
      noteRange(loop);
    Value begin = binary(b, loc, BinaryFn::k_add, loop.getLowerBound(),
                         binary(b, loc, BinaryFn::k_mul, range.getFirst(), loop.getStep()));
    Value end = binary(b, loc, BinaryFn::k_min, loop.getUpperBound(),
                       binary(b, loc, BinaryFn::k_add, begin,
                              binary(b, loc, BinaryFn::k_mul, range.getTrips(), loop.getStep())));
    Value whole = compare(b, loc, ComparePred::k_lt, range.getTrips(), indexConstant(b, loc, 0));
    end = select(b, loc, whole, loop.getUpperBound(), end);
    Value isFirst;
    for (auto [arg, fn] : llvm::zip_equal(loop.getRegionIterArgs(), functions)) {
      OpOperand &init = *loop.getTiedLoopInit(arg);
      TypedAttr neutral = neutralOf(fn, elementOf(init.get().getType()));
      if (changesNothing(init.get(), fn, neutral))
        continue;
      if (!isFirst)
        isFirst = compare(b, loc, ComparePred::k_eq, range.getPart(), indexConstant(b, loc, 0));
      init.set(select(b, loc, isFirst, init.get(), constant(b, loc, init.get().getType(), neutral)));
    }
    loop.setLowerBound(begin);
    loop.setUpperBound(end);

    b.setInsertionPointAfter(loop);
    SmallVector<Attribute> names;
    SmallVector<Value> values;
    SmallVector<Type> types{b.getI1Type()};
    for (auto [result, fn] : llvm::zip_equal(loop.getResults(), functions))
      for (Value v : folded(result, fn, b)) {
        names.push_back(BinaryFnAttr::get(b.getContext(), fn));
        values.push_back(v);
        types.push_back(v.getType());
      }
    auto combine = tgpu::CombinePartsOp::create(b, loc, types, b.getArrayAttr(names), values, ValueRange());
    for (auto [value, total] : llvm::zip_equal(values, combine.getTotals()))
      value.replaceAllUsesExcept(total, combine);
    // Everything that follows, in the last part alone.
    auto last = scf::IfOp::create(b, loc, combine.getLast(), /*withElseRegion=*/false);
    Block &body = *last.thenBlock();
    Block *outer = loop->getBlock();
    body.getOperations().splice(body.getTerminator()->getIterator(), outer->getOperations(),
                                std::next(last->getIterator()), outer->getTerminator()->getIterator());
  }
};

} // namespace
