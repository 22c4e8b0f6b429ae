// SPDX-License-Identifier: Apache-2.0
#include "passes/TailAnalysis.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

void TailAnalysis::run(Block &block) {
  for (Operation &op : block)
    visit(&op);
}

void TailAnalysis::set(Value v, Parts p) {
  if (p.bits)
    parts[v] = p;
  else
    parts.erase(v);
}

SmallVector<Parts> TailAnalysis::all(ValueRange values) const {
  SmallVector<Parts> result;
  for (Value v : values)
    result.push_back(of(v));
  return result;
}

void TailAnalysis::setAll(ValueRange values, ArrayRef<Parts> p) {
  for (auto [v, part] : llvm::zip_equal(values, p))
    set(v, part);
}

static bool join(SmallVectorImpl<Parts> &into, ArrayRef<Parts> more) {
  bool changed = false;
  for (auto [a, b] : llvm::zip_equal(into, more)) {
    Parts both = a | b;
    changed |= !(both == a);
    a = both;
  }
  return changed;
}

void TailAnalysis::visit(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp load) {
        Parts p;
        ArrayRef<int64_t> shape = shapeOf(load.getType());
        for (size_t d = 0; d < shape.size(); ++d) {
          Value offset = load.getOffsets()[d];
          p.bits |= needsLo(facts, offset) ? Parts::lo(d) : 0;
          p.bits |= needsHi(facts, load.getX(), d, offset, shape[d]) ? Parts::hi(d) : 0;
        }
        set(load, p);
      })
      .Case([&](GatherOp gather) {
        Parts p;
        for (Value index : gather.getIndices())
          p = p | of(index);
        if (isTile(gather.getResult()))
          p.bits |= Parts::maskBit;
        set(gather, p);
      })
      .Case([&](KeepOp keep) { set(keep, of(keep.getX()) | Parts{Parts::maskBit}); })
      .Case([&](BroadcastOp op) {
        Parts x = of(op.getX()), p;
        ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        for (size_t d = 0; d < to.size(); ++d)
          if (from[d] == to[d])
            p.moveAxis(x, d, d);
          else if (x.onAxis(d))
            p.bits |= Parts::hi(d);
        p.bits |= x.bits & Parts::maskBit;
        set(op, p);
      })
      .Case([&](ReshapeOp op) {
        Parts x = of(op.getX()), p;
        ArrayRef<int64_t> from = shapeOf(op.getX().getType()), to = shapeOf(op.getType());
        if (to.empty() || !x.bits)
          return;
        if (auto map = unitReshapeMap(from, to)) {
          for (size_t d = 0; d < from.size(); ++d)
            if ((*map)[d] >= 0)
              p.moveAxis(x, d, (*map)[d]);
            else if (x.onAxis(d))
              for (size_t all = 0; all < to.size(); ++all)
                p.bits |= Parts::hi(all);
          p.bits |= x.bits & Parts::maskBit;
        } else {
          p.bits = Parts::maskBit;
        }
        set(op, p);
      })
      .Case([&](PermuteOp op) {
        Parts x = of(op.getX()), p{x.bits & Parts::maskBit};
        for (auto [d, from] : llvm::enumerate(op.getPerm()))
          p.moveAxis(x, from, d);
        set(op, p);
      })
      .Case([&](ReduceOp op) {
        Parts x = of(op.getX());
        set(op, {x.bits & ~(Parts::lo(op.getAxis()) | Parts::hi(op.getAxis()) | Parts::maskBit)});
      })
      .Case([&](MmaOp op) {
        Parts a = of(op.getA()), b = of(op.getB()), p = of(op.getAcc());
        p.moveAxis(a, 0, 0);
        p.moveAxis(b, 1, 1);
        set(op, p);
      })
      .Case([&](scf::ForOp loop) {
        SmallVector<Parts> state = all(loop.getInitArgs());
        do {
          setAll(loop.getRegionIterArgs(), state);
          run(*loop.getBody());
        } while (join(state, all(loop.getYieldedValues())));
        setAll(loop.getResults(), state);
        carried[loop] = state;
      })
      .Case([&](scf::IfOp branch) {
        if (branch.getNumResults() == 0) {
          run(*branch.thenBlock());
          if (branch.elseBlock())
            run(*branch.elseBlock());
          return;
        }
        run(*branch.thenBlock());
        run(*branch.elseBlock());
        SmallVector<Parts> state = all(branch.thenYield().getOperands());
        join(state, all(branch.elseYield().getOperands()));
        setAll(branch.getResults(), state);
        carried[branch] = state;
      })
      .Case([&](scf::WhileOp loop) {
        SmallVector<Parts> state = all(loop.getInits());
        SmallVector<Parts> results;
        do {
          setAll(loop.getBeforeArguments(), state);
          run(*loop.getBeforeBody());
          results = all(loop.getConditionOp().getArgs());
          setAll(loop.getAfterArguments(), results);
          run(*loop.getAfterBody());
        } while (join(state, all(loop.getYieldOp().getOperands())));
        setAll(loop.getResults(), results);
        carried[loop] = state;
        whileResults[loop] = results;
      })
      .Default([&](Operation *op) {
        if (!isElementwise(op) || !isTile(op->getResult(0)))
          return;
        Parts p;
        for (Value v : op->getOperands())
          p = p | of(v);
        set(op->getResult(0), p);
      });
}

} // namespace sectile::passes
