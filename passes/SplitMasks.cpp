// SPDX-License-Identifier: Apache-2.0
/// \file SplitMasks: loops in parts, of which one needs no masks.
///
/// Before: loops of products in which masks compare coordinates. After: iterations in which all of those masks hold everywhere
/// run in a loop of their own without them, those before and behind it in copies with them. Other loops are unchanged.
///
/// A mask compares sums of the loop's counter, what does not change in the loop, and coordinates of lanes, whose least and
/// largest values are known. So it holds in all lanes from some value of the counter on, or up to one: causal masks, windows,
/// ends of tensors. Both are scalars that can be computed before the loop. A mask of another form stays everywhere, unless what
/// is or'ed to it compares such scalars alone: what is known of a whole block.
///
/// Where a mask holds from the first iteration on, by what is known of scalars (a multiple of a tile's length, rounded down, is not
/// behind what it was made from), no part with it is made: causal masks of square tiles that are gone through from the last on.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile::passes {
#define GEN_PASS_DEF_SPLITMASKSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// counter * the loop's counter + constant + terms + something from `least` to `most`, which differs by lane.
struct Form {
  int64_t counter = 0, constant = 0, least = 0, most = 0;
  SmallVector<std::pair<Value, int64_t>> terms; ///< scalars that do not change in the loop
};

/// Values of the counter at which something holds: from `lo` on, up to `hi`, both included; null: no limit.
struct Range {
  Value lo, hi;
};

class Splitter {
public:
  explicit Splitter(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  void run() {
    auto step = IndexFacts::constant(loop.getStep());
    if (!step || *step < 1 || !worksOnProducts())
      return;
    loop.walk([&](Operation *op) {
      if (auto range = rangeOf(op)) {
        masks.push_back(op);
        lows.push_back(range->lo);
        highs.push_back(range->hi);
      }
    });
    llvm::erase(lows, Value());
    llvm::erase(highs, Value());
    if (!masks.empty())
      split(*step);
  }

private:
  /// Threads compute with what products of this loop give: masks cost what it costs.
  bool worksOnProducts() {
    return llvm::any_of(loop.getBody()->getOps<MmaOp>(), [](MmaOp product) {
      return llvm::any_of(product.getResult().getUsers(), [](Operation *user) { return !isa<MmaOp, scf::YieldOp>(user); });
    });
  }

  // --- forms
  // ---------------------------------------------------------------------------------------------------

  static Form sum(const Form &x, const Form &y, int64_t sign) {
    Form r = x;
    r.counter += sign * y.counter;
    r.constant += sign * y.constant;
    r.least += sign > 0 ? y.least : -y.most;
    r.most += sign > 0 ? y.most : -y.least;
    for (auto [v, n] : y.terms)
      r.terms.push_back({v, sign * n});
    return r;
  }

  std::optional<Form> formOf(Value v) {
    constexpr unsigned mostBits = 56; // nothing wraps
    if (auto c = IndexFacts::constant(v))
      return Form{0, *c, 0, 0, {}};
    if (v == loop.getInductionVar())
      return Form{1, 0, 0, 0, {}};
    Operation *op = v.getDefiningOp();
    if (auto binary = dyn_cast_or_null<BinaryOp>(op); binary && facts.of(v).bits <= mostBits) {
      auto x = formOf(binary.getA()), y = formOf(binary.getB());
      if (x && y && binary.getFn() == BinaryFn::k_add)
        return sum(*x, *y, 1);
      if (x && y && binary.getFn() == BinaryFn::k_sub)
        return sum(*x, *y, -1);
    }
    if (!isTile(v)) {
      if (!isa<IndexType>(v.getType()) || !loop.isDefinedOutsideOfLoop(v) || facts.of(v).bits > mostBits)
        return std::nullopt;
      return Form{0, 0, 0, 0, {{v, 1}}};
    }
    if (isa_and_nonnull<SplatOp, BroadcastOp, PermuteOp, ReshapeOp>(op))
      return formOf(op->getOperand(0));
    if (auto iota = dyn_cast_or_null<IotaOp>(op))
      return Form{0, 0, 0, shapeOf(v.getType())[size_t(iota.getAxis())] - 1, {}};
    if (auto convert = dyn_cast_or_null<CastOp>(op)) {
      // A conversion between integers that keeps the value.
      auto fits = [&](Type t) {
        auto integer = dyn_cast<IntegerType>(t);
        return isa<IndexType>(t) || (integer && !integer.isUnsigned() && integer.getWidth() > facts.of(convert.getX()).bits);
      };
      Type from = elementOf(convert.getX().getType());
      if (from.isIntOrIndex() && !from.isInteger(1) && fits(elementOf(v.getType())))
        return formOf(convert.getX());
    }
    return std::nullopt;
  }

  Value number(int64_t n) { return indexConstant(b, loc, n); }
  Value fixedPart(const Form &f, int64_t more) {
    Value r = number(f.constant + more);
    for (auto [v, n] : f.terms)
      r = binary(b, loc, BinaryFn::k_add, r, n == 1 ? v : binary(b, loc, BinaryFn::k_mul, v, number(n)));
    return r;
  }

  // --- where a mask holds
  // -----------------------------------------------------------------------------------------

  /// sign * f + more is at least 0 in all lanes.
  std::optional<Range> whereForm(const Form &f, int64_t more) {
    if (f.counter > 1 || f.counter < -1)
      return std::nullopt;
    if (f.counter > 0 && holdsFromTheStart(f, more))
      return Range();
    Value fixed = fixedPart(f, f.least + more);
    if (f.counter > 0)
      return Range{binary(b, loc, BinaryFn::k_sub, number(0), fixed), Value()};
    if (f.counter < 0)
      return Range{Value(), fixed};
    Value holds = compare(b, loc, ComparePred::k_ge, fixed, number(0));
    Value never = binary(b, loc, BinaryFn::k_sub, loop.getLowerBound(), number(1));
    return Range{Value(), select(b, loc, holds, loop.getUpperBound(), never)};
  }

  /// counter + f + more is at least 0 where the loop starts, whatever the scalars are.
  bool holdsFromTheStart(const Form &f, int64_t more) {
    auto lower = formOf(loop.getLowerBound());
    if (!lower)
      return false;
    // What is above some scalars makes the sum of their opposites least.
    SmallVector<IndexSum> leasts{IndexSum{{}, f.constant + f.least + more}};
    auto addAll = [&](ArrayRef<std::pair<Value, int64_t>> terms) {
      for (auto [v, n] : terms) {
        SmallVector<IndexSum> next;
        for (const IndexSum &least : leasts)
          if (n == -1)
            for (const IndexSum &above : facts.atMost(v))
              next.emplace_back(least).add(above, n);
          else
            next.emplace_back(least).add(IndexSum{{{v, 1}}, 0}, n);
        leasts = std::move(next);
      }
    };
    addAll(f.terms);
    addAll(lower->terms);
    return llvm::any_of(leasts, [&](const IndexSum &s) {
      return s.constant + lower->constant >= 0 && llvm::all_of(s.terms, [&](const auto &term) { return term.second > 0 && facts.nonNegative(term.first); });
    });
  }

  /// sign * v + more is at least 0.
  std::optional<Range> where(Value v, int64_t sign, int64_t more) {
    if (auto f = formOf(v))
      return whereForm(sign > 0 ? *f : sum(Form(), *f, -1), more);
    if (auto op = v.getDefiningOp<BinaryOp>();
        op && op.getFn() == (sign > 0 ? BinaryFn::k_min : BinaryFn::k_max)) { // both have to
      auto x = where(op.getA(), sign, more), y = where(op.getB(), sign, more);
      if (x && y)
        return Range{meet(BinaryFn::k_max, x->lo, y->lo), meet(BinaryFn::k_min, x->hi, y->hi)};
    }
    if (auto op = v.getDefiningOp<SelectOp>(); op && !isTile(v) && loop.isDefinedOutsideOfLoop(op.getCond())) {
      auto x = where(op.getA(), sign, more), y = where(op.getB(), sign, more);
      if (x && y)
        return Range{choose(op.getCond(), x->lo, y->lo, loop.getLowerBound()),
                     choose(op.getCond(), x->hi, y->hi, loop.getUpperBound())};
    }
    return std::nullopt;
  }
  Value meet(BinaryFn fn, Value x, Value y) { return x && y ? binary(b, loc, fn, x, y) : x ? x : y; }
  Value choose(Value cond, Value x, Value y, Value otherwise) {
    return x || y ? select(b, loc, cond, x ? x : otherwise, y ? y : otherwise) : Value();
  }

  std::optional<Range> whereCompared(CompareOp op) {
    if (!elementOf(op.getA().getType()).isIntOrIndex())
      return std::nullopt;
    auto x = formOf(op.getA()), y = formOf(op.getB());
    if (!x || !y)
      return std::nullopt;
    const Form difference = sum(*x, *y, -1);
    if (!difference.counter)
      return std::nullopt; // the same for all iterations
    switch (op.getPred()) {
    case ComparePred::k_ge:
      return whereForm(difference, 0);
    case ComparePred::k_gt:
      return whereForm(difference, -1);
    case ComparePred::k_le:
      return whereForm(sum(Form(), difference, -1), 0);
    case ComparePred::k_lt:
      return whereForm(sum(Form(), difference, -1), -1);
    default:
      return std::nullopt;
    }
  }

  /// A truth value for all lanes: comparisons, all of which have to hold.
  std::optional<Range> whereTruth(Value v) {
    while (isTile(v)) {
      Operation *op = v.getDefiningOp();
      if (!isa_and_nonnull<SplatOp, BroadcastOp, ReshapeOp>(op))
        return std::nullopt;
      v = op->getOperand(0);
    }
    if (auto op = v.getDefiningOp<CompareOp>())
      return whereCompared(op);
    auto both = v.getDefiningOp<BinaryOp>();
    if (!both || both.getFn() != BinaryFn::k_bitand)
      return std::nullopt;
    auto x = whereTruth(both.getA()), y = whereTruth(both.getB());
    return x && y ? std::optional(Range{meet(BinaryFn::k_max, x->lo, y->lo), meet(BinaryFn::k_min, x->hi, y->hi)}) : std::nullopt;
  }

  std::optional<Range> rangeOf(Operation *op) {
    if (auto mask = dyn_cast<CompareOp>(op))
      return isTile(mask.getResult()) ? whereCompared(mask) : std::nullopt;
    if (auto either = dyn_cast<BinaryOp>(op); either && either.getFn() == BinaryFn::k_bitor && isTile(either.getResult())) {
      auto x = whereTruth(either.getA());
      return x ? x : whereTruth(either.getB());
    }
    auto filled = dyn_cast<tgpu::FillOutsideOp>(op);
    if (!filled)
      return std::nullopt;
    Range all;
    for (auto [axis, lo, hi] : llvm::zip_equal(filled.getAxes(), filled.getLo(), filled.getHi())) {
      const int64_t length = shapeOf(filled.getType())[size_t(axis)];
      auto begins = where(lo, -1, 0), ends = where(hi, 1, -length);
      if (auto c = IndexFacts::constant(lo); c && *c <= 0)
        begins = Range();
      if (!begins || !ends)
        return std::nullopt;
      for (const Range &r : {*begins, *ends}) {
        all.lo = meet(BinaryFn::k_max, all.lo, r.lo);
        all.hi = meet(BinaryFn::k_min, all.hi, r.hi);
      }
    }
    return all;
  }

  // --- the parts
  // -------------------------------------------------------------------------------------------------

  /// From `first`, which the loop's values are whole steps from: the first value behind `limit`, at least `first`.
  Value behind(Value first, Value limit, int64_t step) {
    Value distance = binary(b, loc, BinaryFn::k_sub, limit, first);
    distance = binary(b, loc, BinaryFn::k_max, distance, number(-1));
    Value steps = binary(b, loc, BinaryFn::k_floordiv, binary(b, loc, BinaryFn::k_add, distance, number(step)), number(step));
    // Never below the first, as those who look for facts can see.
    return binary(b, loc, BinaryFn::k_max, first,
                  binary(b, loc, BinaryFn::k_add, first, binary(b, loc, BinaryFn::k_mul, steps, number(step))));
  }

  void split(int64_t step) {
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    Value begin = lower, end = upper;
    if (!lows.empty()) {
      Value first = upper; // not behind the end
      Value least = lows.front();
      for (Value v : ArrayRef(lows).drop_front())
        least = binary(b, loc, BinaryFn::k_max, least, v);
      first = binary(b, loc, BinaryFn::k_min, least, first);
      begin = behind(lower, binary(b, loc, BinaryFn::k_sub, first, number(1)), step);
    }
    Value stop = upper;
    if (!highs.empty()) {
      Value most = upper;
      for (Value v : highs)
        most = binary(b, loc, BinaryFn::k_min, most, v);
      end = behind(begin, most, step);
      stop = binary(b, loc, BinaryFn::k_min, end, upper);
    }
    scf::ForOp before, after;
    if (!lows.empty()) {
      before = cast<scf::ForOp>(b.clone(*loop));
      before.setUpperBound(binary(b, loc, BinaryFn::k_min, begin, upper));
      before->moveBefore(loop); // behind its bound
    }
    if (!highs.empty()) {
      b.setInsertionPointAfter(loop);
      after = cast<scf::ForOp>(b.clone(*loop));
      loop->replaceAllUsesWith(after.getResults());
      after.setLowerBound(end);
      after.getInitArgsMutable().assign(loop.getResults());
    }
    loop.setLowerBound(begin);
    loop.setUpperBound(stop);
    if (before)
      loop.getInitArgsMutable().assign(before.getResults());
    for (Operation *mask : masks) {
      b.setInsertionPoint(mask);
      if (auto filled = dyn_cast<tgpu::FillOutsideOp>(mask))
        filled.getResult().replaceAllUsesWith(filled.getX());
      else
        mask->getResult(0).replaceAllUsesWith(constant(b, mask->getLoc(), mask->getResult(0).getType(), b.getBoolAttr(true)));
      mask->erase();
    }
  }

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  IndexFacts facts;
  SmallVector<Operation *> masks;
  SmallVector<Value> lows, highs;
};

struct SplitMasks : sectile::passes::impl::SplitMasksPassBase<SplitMasks> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      Splitter(loop).run();
  }
};

} // namespace
