// SPDX-License-Identifier: Apache-2.0
/// \file SelectMma: choose an MMA table row per tile.mma, or none.
///
/// Before: any tile.mma. After: each carries `tgpu.atom` when a row of the target fits types and shape; the
/// others become scalar multiply-adds later. Sets the launch geometry (warps) of the kernel.

#include "passes/Passes.h"
#include "passes/Promotion.h"
#include "passes/Remarks.h"
#include "passes/Support.h"

#include "ir/PingPong.h"
#include "ir/Turns.h"

#include "llvm/ADT/DenseSet.h"

#include <bit>

namespace sectile::passes {
#define GEN_PASS_DEF_SELECTMMAPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

constexpr int warpgroup = 4; ///< warps

/// Registers of a thread for the sums of one product: 240 are there, some are needed for addresses and epilogues.
constexpr int mostAccumulators = 200;

/// A product and the rows it could use, null if none fits: one of warps and one of warpgroups, with the most groups
/// that share it.
struct Product {
  MmaOp op;
  const MmaRow *row = nullptr;
  int m, n, k;
  const MmaRow *groupRow = nullptr;
  int groups = 0;
};

/// f16 sums are kept in f32 and rounded once at the end of the product.
void widenF16(MmaOp op) {
  if (!elementOf(op.getType()).isF16())
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type wide = withElement(op.getType(), b.getF32Type()), narrow = op.getType();
  Value acc = CastOp::create(b, loc, wide, op.getAcc());
  op.getAccMutable().assign(acc);
  op.getResult().setType(cast<RankedTensorType>(wide));
  b.setInsertionPointAfter(op);
  auto rounded = CastOp::create(b, loc, narrow, op.getResult());
  op.getResult().replaceAllUsesExcept(rounded, rounded);
}

/// Of one thread. Short sums that threads add to longer ones are there beside those.
int64_t registersOfSums(const Product &p, int warps, const Target &target) {
  const bool twice = p.groupRow && isPromoted(p.op, *p.groupRow);
  return int64_t(p.m) * p.n / (warps * target.warpSize) * (twice ? 2 : 1);
}

Product findRow(MmaOp op, const Target &target, bool pipelined) {
  ArrayRef<int64_t> a = shapeOf(op.getA().getType()), b = shapeOf(op.getB().getType());
  Product p{op, nullptr, int(a[0]), int(b[1]), int(a[1]), nullptr, 0};
  auto dtype = [](Value v) { return *dtypeOfType(elementOf(v.getType())); };
  const MmaQuery query{dtype(op.getA()), dtype(op.getB()), dtype(op.getAcc()), p.m, p.n, p.k,
                       op.getPolicy() == MmaPolicy::k_tf32};
  p.row = selectMma(target, query);
  // On warpgroups: with TMA for the operands, and as many accumulators as a thread can have beside the rest.
  if (pipelined && target.has(Feature::tma) && p.k * byteSize(query.a) % 32 == 0)
    if (const MmaRow *row = selectWgmma(target, query); row && (!keepsFewBits(*row) || p.k <= mostShortTerms)) {
      p.groupRow = row;
      for (int groups : {2, 1})
        if (warpGrid(*row, p.m, p.n, p.k, groups * warpgroup) && registersOfSums(p, groups * warpgroup, target) <= mostAccumulators)
          p.groups = std::max(p.groups, groups);
      if (!p.groups)
        p.groupRow = nullptr;
    }
  return p;
}

/// An operand is made by threads, not loaded.
bool computes(Product p) {
  auto isLoad = [](Value v) {
    while (Operation *op = v.getDefiningOp()) {
      if (isa<tgpu::GlobalLoadOp>(op))
        return true;
      if (!isa<PermuteOp, ReshapeOp>(op))
        return false;
      v = op->getOperand(0);
    }
    return false;
  };
  return !isLoad(p.op.getA()) || !isLoad(p.op.getB());
}

/// Two blocks of one warpgroup per multiprocessor instead of one of two: while one stores its sums or computes operands, the
/// other one multiplies. The sums of all products fit beside what a thread needs at its entry, and so do three stages of
/// operands in half of the shared memory.
bool fitsTwice(ArrayRef<Product> products, const Target &target) {
  constexpr int64_t mostSums = 128, mostColumns = 128, stages = 3, otherBytes = 17 * 1024;
  int64_t sums = 0, stageBytes = 0;
  DenseSet<Value> operands;
  for (Product p : products) {
    if (!p.groupRow || p.groupRow->n > mostColumns || !warpGrid(*p.groupRow, p.m, p.n, p.k, warpgroup))
      return false;
    sums += registersOfSums(p, warpgroup, target);
    if (operands.insert(p.op.getA()).second)
      stageBytes += int64_t(p.m) * p.k * int64_t(byteSize(p.groupRow->a.dtype));
    if (operands.insert(p.op.getB()).second)
      stageBytes += int64_t(p.k) * p.n * int64_t(byteSize(p.groupRow->b.dtype));
  }
  return !products.empty() && sums <= mostSums && stages * stageBytes + otherBytes <= target.sharedBytesPerSm / 2;
}

/// Longer and short sums of all promoted products are alive together: where a thread cannot have them, warps multiply.
void leavePromotedToWarps(MutableArrayRef<Product> products, const Target &target) {
  int64_t sums = 0;
  auto promoted = [](const Product &p) { return p.groupRow && isPromoted(p.op, *p.groupRow); };
  for (const Product &p : products)
    if (promoted(p))
      sums += registersOfSums(p, p.groups * warpgroup, target);
  if (sums <= mostAccumulators)
    return;
  for (Product &p : products)
    if (promoted(p)) {
      p.groupRow = nullptr;
      p.groups = 0;
    }
}

/// Every product can be that of one warpgroup, which has its sums beside what a thread needs.
bool fitsOneGroup(ArrayRef<Product> products, const Target &target) {
  int64_t sums = 0;
  for (Product p : products) {
    if (!p.groupRow || !warpGrid(*p.groupRow, p.m, p.n, p.k, warpgroup))
      return false;
    sums += registersOfSums(p, warpgroup, target);
  }
  return !products.empty() && sums <= mostAccumulators;
}

/// Warps by the work of one program. Products: enough accumulators per thread to feed the tensor cores.
/// Others: about 8 elements per thread up to 4 warps, then 32.
int warpsByRule(func::FuncOp func, ArrayRef<Product> products, const Target &target) {
  int most = target.threadsPerBlock / target.warpSize;
  if (!products.empty()) {
    int64_t largest = 0;
    int groups = 0;
    for (const Product &p : products) {
      largest = std::max(largest, int64_t(p.m) * p.n);
      groups = std::max(groups, p.groups);
    }
    // Two warpgroups hide each other's waits; a product that only one can take leaves the other without work.
    if (groups && llvm::all_of(products, [](const Product &p) { return p.groups > 0; }))
      return warpgroup * llvm::min_element(products, [](const Product &x, const Product &y) {
               return x.groups < y.groups;
             })->groups;
    int warps = largest >= 128 * 128 ? 8 : 4;
    // Atoms bound how far a product can be split.
    auto splits = [&](const Product &p) { return !p.row || warpGrid(*p.row, p.m, p.n, p.k, warps); };
    while (warps > 1 && !llvm::all_of(products, splits))
      warps /= 2;
    return std::min(warps, most);
  }
  int64_t largest = 1;
  func.walk([&](Operation *op) {
    for (Type t : op->getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(t))
        largest = std::max(largest, tile.getNumElements());
  });
  auto blocks = [&](int64_t perWarp) { return std::bit_ceil(uint64_t((largest + perWarp - 1) / perWarp)); };
  uint64_t warps = std::min<uint64_t>(blocks(256), 4);
  warps = std::max(warps, std::min<uint64_t>(blocks(1024), 16));
  return int(std::min<uint64_t>(warps, most));
}

struct SelectMma : sectile::passes::impl::SelectMmaPassBase<SelectMma> {
  using SelectMmaPassBase::SelectMmaPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    const Target *target = findTarget(arch.getValue());
    if (!target) {
      func.emitError() << "'" << arch.getValue()
                       << "' is no known target [select_mma_c1]; use one such as sm_90a";
      return signalPassFailure();
    }
    SmallVector<Product> products;
    func.walk([&](MmaOp op) {
      widenF16(op);
      products.push_back(findRow(op, *target, pipelined));
    });
    leavePromotedToWarps(products, *target);
    int64_t count = warps.getValue();
    // Threads that make operands let the tensor cores wait: another block has work for them meanwhile.
    const bool fits = fitsTwice(products, *target);
    const bool twice = blocks.getValue() == 2 || (blocks.getValue() == 0 && count == 0 && fits &&
                                                  llvm::any_of(products, [](const Product &p) { return computes(p); }));
    const bool inTurns = pingpong.getValue() == 2 && (count == 0 || count == warpgroup) && blocks.getValue() < 2 &&
                         fitsOneGroup(products, *target);
    if (inTurns)
      count = warpgroup;
    if (count == 0)
      count = twice && fits ? warpgroup : warpsByRule(func, products, *target);
    int64_t most = target->threadsPerBlock / target->warpSize;
    if (count < 1 || count > most || !std::has_single_bit(uint64_t(count))) {
      func.emitError() << count << " warps per block, " << target->arch << " runs powers of two from 1 to "
                       << most << " [select_mma_c2]; choose one of them, or 0 for the default";
      return signalPassFailure();
    }
    for (Product &p : products) {
      if (p.groupRow && count % warpgroup == 0 && warpGrid(*p.groupRow, p.m, p.n, p.k, int(count))) {
        if (p.row && warpGrid(*p.row, p.m, p.n, p.k, int(count)))
          p.op->setAttr(otherAtomAttr, tgpu::AtomAttr::get(&getContext(), p.row->name));
        p.row = p.groupRow;
      }
      const bool fits = p.row && warpGrid(*p.row, p.m, p.n, p.k, int(count));
      if (fits)
        p.op->setAttr(atomAttr, tgpu::AtomAttr::get(&getContext(), p.row->name));
      remarkProduct(func, p.op, *target, fits ? p.row : nullptr, pipelined, int(count));
    }
    func->setAttr(tgpu::launchAttr, tgpu::LaunchAttr::get(&getContext(), count, 0));
    if (inTurns)
      func->setAttr(tgpu::groupsAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), 2));
    else if (twice)
      func->setAttr(tgpu::minBlocksAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), 2));
    if (pingpong != 0 && !inTurns)
      func->setAttr(tgpu::turnsAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), pingpong));
    func->setAttr(tgpu::targetAttr, StringAttr::get(&getContext(), target->arch));
  }
};

} // namespace
