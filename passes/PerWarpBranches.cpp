// SPDX-License-Identifier: Apache-2.0
/// \file PerWarpBranches: rare branches that each warp takes alone.
///
/// Before: a branch on whether any element of a mask holds, which all threads of the block learn through shared memory. After:
/// each warp asks only its own threads (tgpu.warp_any), where
///  - warps hold whole rows of the mask, those of which they hold anything that the branch gives, and nothing inside the
///    branch needs other warps or touches memory;
///  - both ways give the same for rows in which no element holds. `same` proves it from the ops: those that keep rows apart
///    give the same for the same operands, and a choice by the mask, or by `any` of its row, takes one side.
/// Other branches are unchanged.

#include "passes/Passes.h"
#include "passes/SharedAccesses.h"
#include "passes/Support.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>
#include <set>

namespace sectile::passes {
#define GEN_PASS_DEF_PERWARPBRANCHESPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// The tile whose elements a scalar is `any` of; null if it is something else.
Value maskOf(Value any) {
  Value at = any;
  bool reduces = false;
  while (Operation *op = at.getDefiningOp()) {
    if (auto reduce = dyn_cast<tgpu::ReduceOp>(op); reduce && reduce.getKind() == ReduceKind::k_any) {
      at = reduce.getX();
      reduces = true;
    } else if (isa<ReshapeOp, PermuteOp, tgpu::ConvertLayoutOp>(op)) {
      at = op->getOperand(0);
    } else if (auto out = dyn_cast<tgpu::CopyOutOp>(op)) {
      tgpu::BufferAllocOp alloc = allocOf(out.getBuffer());
      tgpu::CopyOp filled;
      if (!alloc)
        return {};
      for (Operation *user : alloc->getUsers())
        if (auto copy = dyn_cast<tgpu::CopyOp>(user)) {
          if (filled)
            return {};
          filled = copy;
        }
      if (!filled)
        return {};
      at = filled.getValue();
    } else {
      break;
    }
  }
  return reduces && isTile(at) && elementOf(at.getType()).isInteger(1) ? at : Value();
}

class Prover {
public:
  explicit Prover(Value mask) : mask(mask) {}

  /// In rows without an element of the mask, both values are equal.
  bool same(Value x, Value y) {
    if (x == y)
      return true;
    if (auto known = sames.find({x, y}); known != sames.end())
      return known->second;
    sames[{x, y}] = false; // values do not depend on themselves
    return sames[{x, y}] = prove(x, y);
  }

private:
  Value chosen(Value v) {
    while (auto select = v.getDefiningOp<SelectOp>()) {
      if (!never(select.getCond()))
        break;
      v = select.getB();
    }
    return v;
  }

  /// A tile of i1 no element of which holds in such rows.
  bool never(Value v) {
    if (v == mask)
      return true;
    Operation *op = v.getDefiningOp();
    if (auto reduce = dyn_cast_or_null<tgpu::ReduceOp>(op))
      return reduce.getKind() == ReduceKind::k_any && keepsRows(op) && never(reduce.getX());
    if (isa_and_nonnull<BroadcastOp, ReshapeOp, tgpu::ConvertLayoutOp>(op))
      return keepsRows(op) && never(op->getOperand(0));
    if (auto binary = dyn_cast_or_null<BinaryOp>(op)) {
      if (binary.getFn() == BinaryFn::k_bitor)
        return never(binary.getA()) && never(binary.getB());
      if (binary.getFn() == BinaryFn::k_bitand)
        return never(binary.getA()) || never(binary.getB());
    }
    return false;
  }

  /// The scalar, or the number, that all elements are; null if none is known.
  void *repeated(Value v) {
    v = chosen(v);
    Operation *op = v.getDefiningOp();
    if (isa_and_nonnull<BroadcastOp, ReshapeOp, tgpu::ConvertLayoutOp>(op) && isTile(op->getOperand(0)))
      return repeated(op->getOperand(0));
    if (auto splat = dyn_cast_or_null<SplatOp>(op))
      return splat.getX().getAsOpaquePointer();
    Attribute attr;
    if (!matchPattern(v, m_Constant(&attr)))
      return nullptr;
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      attr = splat.getSplatValue<Attribute>();
    return isa<IntegerAttr, FloatAttr>(attr) ? const_cast<void *>(attr.getAsOpaquePointer()) : nullptr;
  }

  bool isOne(Value v) {
    v = chosen(v);
    if (auto broadcast = v.getDefiningOp<BroadcastOp>())
      return isOne(broadcast.getX());
    Attribute attr;
    if (!matchPattern(v, m_Constant(&attr)))
      return false;
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      attr = splat.getSplatValue<Attribute>();
    auto number = dyn_cast<FloatAttr>(attr);
    return number && number.getValue().isExactlyValue(1.0);
  }

  bool prove(Value x, Value y) {
    Value a = chosen(x), b = chosen(y);
    if (a != x || b != y)
      return same(a, b);
    Operation *p = x.getDefiningOp(), *q = y.getDefiningOp();
    if (void *s = repeated(x); s && s == repeated(y) && x.getType() == y.getType())
      return true;
    if (auto product = dyn_cast_or_null<BinaryOp>(p); product && product.getFn() == BinaryFn::k_mul) {
      if (isOne(product.getB()) && same(product.getA(), y))
        return true;
      if (isOne(product.getA()) && same(product.getB(), y))
        return true;
    }
    if (!p || !q || p->getName() != q->getName() || p->getAttrDictionary() != q->getAttrDictionary() ||
        x.getType() != y.getType() || p->getNumOperands() != q->getNumOperands() || p->getNumResults() != 1 ||
        p->getNumRegions() || !isMemoryEffectFree(p) || !keepsRows(p))
      return false;
    return llvm::all_of(llvm::zip_equal(p->getOperands(), q->getOperands()),
                        [&](auto pair) { return same(std::get<0>(pair), std::get<1>(pair)); });
  }

  /// Elements of a row of the result depend on the same row of the operands alone. Rows are along axis 0.
  bool keepsRows(Operation *op) {
    if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, ConstantOp, SplatOp, tgpu::ConvertLayoutOp,
            tgpu::FillOutsideOp>(op))
      return true;
    if (auto reduce = dyn_cast<tgpu::ReduceOp>(op))
      return reduce.getAxis() != 0 && reduce->getNumResults() == 1;
    if (isa<BroadcastOp, ReshapeOp>(op) && isTile(op->getOperand(0)) && isTile(op->getResult(0)))
      return shapeOf(op->getOperand(0).getType())[0] == shapeOf(op->getResult(0).getType())[0];
    return false;
  }

  Value mask;
  DenseMap<std::pair<Value, Value>, bool> sames;
};

/// No thread inside waits for another warp, and nothing is read or written.
bool staysInWarps(scf::IfOp branch, LayoutCache &layouts) {
  bool stays = true;
  branch->walk([&](Operation *op) {
    if (op == branch || op->hasTrait<OpTrait::IsTerminator>())
      return;
    if (auto convert = dyn_cast<tgpu::ConvertLayoutOp>(op))
      stays &= conversionKind(layouts.of(convert.getX()), layouts.of(convert.getType())) <= ConversionKind::ShuffleLanes;
    else
      stays &= op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
               isa<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, ConstantOp, SplatOp, IotaOp, BroadcastOp, ReshapeOp,
                   PermuteOp, tgpu::ReduceOp, tgpu::FillOutsideOp>(op);
  });
  return stays;
}

/// Coordinates along axis 0 of what the threads of each warp hold.
std::vector<std::set<int32_t>> rowsOf(const Layout &layout) {
  std::vector<std::set<int32_t>> rows(size_t(layout.numWarps()));
  for (int warp = 0; warp < layout.numWarps(); ++warp)
    for (int reg = 0; reg < layout.numRegs(); ++reg)
      for (int lane = 0; lane < 32; ++lane)
        rows[size_t(warp)].insert(layout.coords(reg, lane, warp)[0]);
  return rows;
}

/// Every warp that holds an element of a row, of the mask or of a result, holds the whole row of the mask.
bool hasRowsInWarps(Value mask, scf::IfOp branch, LayoutCache &layouts) {
  const Layout &layout = layouts.of(mask);
  for (const Coords &step : layout.warp())
    for (int axis = 1; axis < layout.rank(); ++axis)
      if (step[axis])
        return false;
  const auto held = rowsOf(layout);
  return llvm::all_of(branch.getResults(), [&](Value v) {
    if (!isTile(v))
      return true; // one value either way
    const auto rows = rowsOf(layouts.of(v));
    for (size_t warp = 0; warp < rows.size(); ++warp)
      if (!std::includes(held[warp].begin(), held[warp].end(), rows[warp].begin(), rows[warp].end()))
        return false;
    return true;
  });
}

struct PerWarpBranches : sectile::passes::impl::PerWarpBranchesPassBase<PerWarpBranches> {
  void runOnOperation() override {
    LayoutCache layouts(&getContext());
    SmallVector<scf::IfOp> branches;
    getOperation().walk([&](scf::IfOp branch) { branches.push_back(branch); });
    for (scf::IfOp branch : branches) {
      Value mask = maskOf(branch.getCondition());
      if (!mask || branch->getNumResults() == 0 || !staysInWarps(branch, layouts) || !hasRowsInWarps(mask, branch, layouts))
        continue;
      Prover prover(mask);
      if (!llvm::all_of(llvm::zip_equal(branch.thenYield().getOperands(), branch.elseYield().getOperands()),
                        [&](auto pair) { return prover.same(std::get<0>(pair), std::get<1>(pair)); }))
        continue;
      OpBuilder b(branch);
      Value old = branch.getCondition();
      branch.getConditionMutable().assign(tgpu::WarpAnyOp::create(b, branch.getLoc(), mask));
      eraseUnused(old);
      sink(branch);
    }
  }

  /// What only the rare way needs is made there.
  static void sink(scf::IfOp branch) {
    Block *rare = branch.thenBlock();
    for (Operation *op = branch->getPrevNode(); op;) {
      Operation *before = op->getPrevNode();
      auto isInside = [&](Operation *user) { return rare->findAncestorOpInBlock(*user) != nullptr; };
      if (isa<tgpu::ReduceOp, UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, BroadcastOp>(op) && isTile(op->getResult(0)) &&
          !op->use_empty() && llvm::all_of(op->getUsers(), isInside))
        op->moveBefore(rare, rare->begin());
      op = before;
    }
  }

  /// What brought the answer to all threads.
  static void eraseUnused(Value v) {
    Operation *op = v.getDefiningOp();
    if (!op || !op->use_empty())
      return;
    if (auto out = dyn_cast<tgpu::CopyOutOp>(op)) {
      tgpu::BufferAllocOp alloc = allocOf(out.getBuffer());
      out.erase();
      if (alloc && llvm::all_of(alloc->getUsers(), [](Operation *user) { return isa<tgpu::CopyOp>(user); })) {
        SmallVector<Operation *> copies(alloc->getUsers());
        for (Operation *copy : copies) {
          Value value = cast<tgpu::CopyOp>(copy).getValue();
          copy->erase();
          eraseUnused(value);
        }
        alloc.erase();
      }
      return;
    }
    if (!isMemoryEffectFree(op))
      return;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      eraseUnused(operand);
  }
};

} // namespace
