// SPDX-License-Identifier: Apache-2.0
/// \file Simplify: folds, dead code, loop-carried values and small loads that do not change.
///
/// Before: anything. After: the same meaning in ops of the same dialects. The upstream canonicalizer is not
/// used as it brings in `arith` ops for branches, which the later stages do not take.

#include "ir/IndexFacts.h"
#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace sectile::passes {
#define GEN_PASS_DEF_SIMPLIFYPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;

namespace {

/// for (.., h = init) { .. yield min(h, c) } with c the same in every iteration and h used nowhere else: the
/// result is min(init, c), or init if the loop does not run. Extents of accumulators are such values. The
/// same for max.
struct HoistMinMax : OpRewritePattern<scf::ForOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(scf::ForOp loop, PatternRewriter &rewriter) const override {
    for (auto [arg, init, yielded, result] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getInitArgs(),
                                                             loop.getYieldedValues(), loop.getResults())) {
      auto op = yielded.getDefiningOp<tileir::BinaryOp>();
      if (!op || !isa<IndexType>(arg.getType()) || !arg.hasOneUse() || *arg.user_begin() != op ||
          result.use_empty())
        continue;
      if (op.getFn() != tileir::BinaryFn::k_min && op.getFn() != tileir::BinaryFn::k_max)
        continue;
      Value c = op.getA() == arg ? op.getB() : op.getA();
      if (!loop.isDefinedOutsideOfLoop(c))
        continue;
      Location loc = op.getLoc();
      Value runs = tileir::CompareOp::create(rewriter, loc, rewriter.getI1Type(), tileir::ComparePred::k_lt,
                                             loop.getLowerBound(), loop.getUpperBound());
      Value met = tileir::BinaryOp::create(rewriter, loc, init.getType(), op.getFn(), init, c);
      Value after = tileir::SelectOp::create(rewriter, loc, init.getType(), runs, met, init);
      rewriter.replaceAllUsesWith(result, after);
      // What is carried no longer matters: make it unchanging, which upstream patterns remove.
      Operation *yield = loop.getBody()->getTerminator();
      rewriter.modifyOpInPlace(yield, [&] { yield->setOperand(result.getResultNumber(), arg); });
      return success();
    }
    return failure();
  }
};

/// c < min(x, y) where x is known to be above c: c < y. Whether a loop up to such a bound runs at all does not depend on the
/// program then.
struct CompareWithMin : OpRewritePattern<tileir::CompareOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool isAbove(Value x, int64_t c) {
    auto sum = x.getDefiningOp<tileir::BinaryOp>();
    if (!sum || sum.getFn() != tileir::BinaryFn::k_add)
      return false;
    tileir::IndexFacts facts;
    auto more = facts.constant(sum.getB());
    const tileir::IndexFact fact = facts.of(sum.getA());
    return more && *more > c && *more < tileir::IndexFacts::maxDivisor && fact.nonNegative && fact.bits < 62;
  }
  LogicalResult matchAndRewrite(tileir::CompareOp op, PatternRewriter &rewriter) const override {
    auto c = tileir::IndexFacts::constant(op.getA());
    auto least = op.getB().getDefiningOp<tileir::BinaryOp>();
    if (!c || *c < 0 || !isa<IndexType>(op.getB().getType()) || op.getPred() != tileir::ComparePred::k_lt || !least ||
        least.getFn() != tileir::BinaryFn::k_min)
      return failure();
    for (auto [x, y] : {std::pair(least.getA(), least.getB()), std::pair(least.getB(), least.getA())})
      if (isAbove(x, *c)) {
        rewriter.modifyOpInPlace(op, [&] { op.getBMutable().assign(y); });
        return success();
      }
    return failure();
  }
};

/// (splat(x) + t) - splat(y) of integers: splat(x - y) + t, which is one op less for each lane.
struct JoinSplats : OpRewritePattern<tileir::BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tileir::BinaryOp op, PatternRewriter &rewriter) const override {
    using tileir::BinaryFn;
    if (op.getFn() != BinaryFn::k_sub || !passes::isTile(op.getResult()) || !tileir::elementOf(op.getType()).isIntOrIndex())
      return failure();
    auto sum = op.getA().getDefiningOp<tileir::BinaryOp>();
    auto less = op.getB().getDefiningOp<tileir::SplatOp>();
    if (!sum || !less || sum.getFn() != BinaryFn::k_add)
      return failure();
    for (auto [x, t] : {std::pair(sum.getA(), sum.getB()), std::pair(sum.getB(), sum.getA())})
      if (auto splat = x.getDefiningOp<tileir::SplatOp>()) {
        Value scalar = passes::binary(rewriter, op.getLoc(), BinaryFn::k_sub, splat.getX(), less.getX());
        Value all = tileir::SplatOp::create(rewriter, op.getLoc(), op.getType(), scalar);
        rewriter.replaceOpWithNewOp<tileir::BinaryOp>(op, op.getType(), BinaryFn::k_add, all, t);
        return success();
      }
    return failure();
  }
};

/// A few elements that every iteration loads anew from memory that the loop does not write are loaded before it.
template <class Load> struct HoistLoad : OpRewritePattern<Load> {
  using OpRewritePattern<Load>::OpRewritePattern;

  LogicalResult matchAndRewrite(Load op, PatternRewriter &rewriter) const override {
    constexpr int64_t mostElements = 1024; // a row or a column: few registers throughout the loop
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!loop || !llvm::all_of(op->getOperands(), [&](Value v) { return loop.isDefinedOutsideOfLoop(v); }) ||
        (passes::isTile(op.getResult()) && llvm::product_of(tileir::shapeOf(op.getType())) > mostElements))
      return failure();
    auto func = op->template getParentOfType<func::FuncOp>();
    const bool writes = loop.getBody()->walk([&](Operation *other) {
                              if (auto store = dyn_cast<tgpu::GlobalStoreOp>(other))
                                return passes::mayShareMemory(func, store.getX(), op.getX()) ? WalkResult::interrupt() : WalkResult::advance();
                              return other->getNumRegions() || isMemoryEffectFree(other) || isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(other)
                                         ? WalkResult::advance()
                                         : WalkResult::interrupt();
                            }).wasInterrupted();
    if (writes)
      return failure();
    rewriter.moveOpBefore(op, loop);
    return success();
  }
};

/// A branch that gives the same value either way, or one that nobody uses.
struct NarrowBranch : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(scf::IfOp branch, PatternRewriter &rewriter) const override {
    if (branch.getNumResults() == 0)
      return failure();
    ValueRange yes = branch.thenYield().getOperands(), no = branch.elseYield().getOperands();
    SmallVector<unsigned> kept;
    SmallVector<Type> types;
    for (unsigned i = 0; i < branch.getNumResults(); ++i) {
      if (yes[i] == no[i])
        rewriter.replaceAllUsesWith(branch.getResult(i), yes[i]);
      if (branch.getResult(i).use_empty())
        continue;
      kept.push_back(i);
      types.push_back(branch.getResult(i).getType());
    }
    if (kept.size() == branch.getNumResults())
      return failure();
    auto narrow = scf::IfOp::create(rewriter, branch.getLoc(), types, branch.getCondition(), /*addThenBlock=*/false,
                                    /*addElseBlock=*/false);
    rewriter.inlineRegionBefore(branch.getThenRegion(), narrow.getThenRegion(), narrow.getThenRegion().end());
    rewriter.inlineRegionBefore(branch.getElseRegion(), narrow.getElseRegion(), narrow.getElseRegion().end());
    for (Region *region : {&narrow.getThenRegion(), &narrow.getElseRegion()}) {
      Operation *yield = region->front().getTerminator();
      SmallVector<Value> values;
      for (unsigned i : kept)
        values.push_back(yield->getOperand(i));
      rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(values); });
    }
    for (auto [n, i] : llvm::enumerate(kept))
      rewriter.replaceAllUsesWith(branch.getResult(i), narrow.getResult(unsigned(n)));
    rewriter.eraseOp(branch);
    return success();
  }
};

struct Simplify : sectile::passes::impl::SimplifyPassBase<Simplify> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    scf::ForOp::getCanonicalizationPatterns(set, context);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (isa<tileir::TileDialect>(op.getDialect()))
        op.getCanonicalizationPatterns(set, context);
    set.add<HoistMinMax, NarrowBranch, CompareWithMin, JoinSplats, HoistLoad<tgpu::GlobalLoadOp>, HoistLoad<tgpu::GlobalGatherOp>>(context);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }
  void runOnOperation() override {
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    (void)applyPatternsGreedily(getOperation(), patterns, config); // not reaching a fixed point is no error
  }
  FrozenRewritePatternSet patterns;
};

} // namespace
