// SPDX-License-Identifier: Apache-2.0
/// \file Simplify: folds, dead code and loop-carried values that do not change.
///
/// Before: anything. After: the same meaning in ops of the same dialects. The upstream canonicalizer is not
/// used as it brings in `arith` ops for branches, which the later stages do not take.

#include "passes/Passes.h"

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

/// A branch that gives the same value either way.
struct SameEitherWay : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(scf::IfOp branch, PatternRewriter &rewriter) const override {
    if (!branch.elseBlock())
      return failure();
    bool changed = false;
    for (auto [result, x, y] : llvm::zip_equal(branch.getResults(), branch.thenYield().getOperands(), branch.elseYield().getOperands()))
      if (x == y && !result.use_empty()) {
        rewriter.replaceAllUsesWith(result, x);
        changed = true;
      }
    return success(changed);
  }
};

struct Simplify : sectile::passes::impl::SimplifyPassBase<Simplify> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    scf::ForOp::getCanonicalizationPatterns(set, context);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (isa<tileir::TileDialect>(op.getDialect()))
        op.getCanonicalizationPatterns(set, context);
    set.add<HoistMinMax, SameEitherWay>(context);
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
