// SPDX-License-Identifier: Apache-2.0
/// \file NarrowBranches: what a branch gives is made narrower inside it.
///
/// Before: tiles that a branch gives in a wide type and that only a conversion to a narrower one uses. After: both sides give the narrow
/// type. What a side hands on from in front of the branch is converted there, so that where that side is the usual one
/// the wide tile is not needed any longer than it takes to make the narrow one. Other values of branches are unchanged.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile::passes {
#define GEN_PASS_DEF_NARROWBRANCHESPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

struct NarrowBranches : sectile::passes::impl::NarrowBranchesPassBase<NarrowBranches> {
  void runOnOperation() override {
    SmallVector<scf::IfOp> branches;
    getOperation().walk([&](scf::IfOp branch) { branches.push_back(branch); }); // inner ones first
    for (scf::IfOp branch : branches)
      for (OpResult result : branch.getResults())
        if (CastOp narrow = narrowing(result))
          moveInto(branch, result.getResultNumber(), narrow);
  }

private:
  static int64_t bitsOf(Value v) { return int64_t(elementOf(v.getType()).getIntOrFloatBitWidth()); }

  /// The conversion that alone uses a tile, where the branch is; null if there is none.
  static CastOp narrowing(OpResult v) {
    if (!isTile(v) || !v.hasOneUse())
      return {};
    auto cast = dyn_cast<CastOp>(*v.user_begin());
    return cast && cast->getBlock() == v.getOwner()->getBlock() && elementOf(v.getType()).isIntOrFloat() &&
                   elementOf(cast.getType()).isIntOrFloat() && bitsOf(cast.getResult()) < bitsOf(v)
               ? cast
               : CastOp();
  }

  static void moveInto(scf::IfOp branch, unsigned n, CastOp narrow) {
    OpBuilder b(branch);
    for (Block *side : {branch.thenBlock(), branch.elseBlock()}) {
      Operation *yield = side->getTerminator();
      Value wide = yield->getOperand(n);
      if (Block *from = wide.getParentBlock(); from == side)
        b.setInsertionPoint(yield);
      else
        b.setInsertionPoint(branch);
      IRMapping map;
      map.map(narrow.getX(), wide);
      yield->setOperand(n, b.clone(*narrow, map)->getResult(0));
    }
    Value result = branch.getResult(n);
    result.setType(narrow.getType());
    narrow.getResult().replaceAllUsesWith(result);
    narrow.erase();
  }
};

} // namespace
