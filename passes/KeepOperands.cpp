// SPDX-License-Identifier: Apache-2.0
/// \file KeepOperands: first operands of products that a loop does not change, in registers.
///
/// Before: tgpu.wgmma whose first operand is in shared memory. After: one that a tgpu.stage_load brings before the loop, and that
/// only products read, is read into registers once, behind the load, where the registers of a thread suffice. Its
/// buffer is free from there on, so that what the next program needs comes while this one is computed, and products
/// read half of what they did from shared memory. Others are unchanged.

#include "passes/Passes.h"
#include "passes/RegisterBudget.h"
#include "passes/Support.h"

#include "mlir/Analysis/Liveness.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile::passes {
#define GEN_PASS_DEF_KEEPOPERANDSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Registers of a thread that addresses, states of rows and temporaries need beside tiles.
constexpr int64_t otherRegisters = 16;

/// Registers per thread of tiles that are alive at a time.
class Registers {
public:
  Registers(func::FuncOp func, int64_t warps) : liveness(func), threads(warps * 32) {}

  /// The most in a block and all blocks inside.
  int64_t most(Block &block) const {
    int64_t bytes = 0;
    visit(block, 0, bytes);
    return bytes / (threads * 4);
  }
  static int64_t bytesOf(Value v) {
    return isTile(v) && elementOf(v.getType()).isIntOrFloat() && !elementOf(v.getType()).isInteger(1)
               ? llvm::product_of(shapeOf(v.getType())) * int64_t(byteSize(*dtypeOfType(elementOf(v.getType()))))
               : 0;
  }
  int64_t of(int64_t bytes) const { return bytes / (threads * 4); }

private:
  /// Made element by element where it is used: what repeats one number, and what becomes narrower or part of a sum.
  static bool streams(Value v) {
    Operation *op = v.getDefiningOp();
    if (isa_and_nonnull<ConstantOp, SplatOp, IotaOp, BroadcastOp>(op))
      return true;
    if (!isa_and_nonnull<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp, PermuteOp, ReshapeOp, tgpu::FillOutsideOp>(op))
      return false;
    return llvm::all_of(v.getUsers(), [&](Operation *user) {
      if (user->getBlock() != op->getBlock())
        return false;
      if (isa<ReduceOp>(user))
        return true;
      return isa<UnaryOp, BinaryOp, SelectOp, FmaOp, CastOp, PermuteOp, ReshapeOp, tgpu::FillOutsideOp>(user) &&
             (bytesOf(user->getResult(0)) < bytesOf(v) || streams(user->getResult(0)));
    });
  }

  /// Of what a product gives, in its block.
  static Operation *firstUser(tgpu::WgmmaOp product) {
    Operation *first = &product->getBlock()->back();
    for (Operation *user : product.getResult().getUsers())
      if (Operation *here = product->getBlock()->findAncestorOpInBlock(*user); here && here->isBeforeInBlock(first))
        first = here;
    return first;
  }

  void visit(Block &block, int64_t around, int64_t &most) const {
    const LivenessBlockInfo *info = liveness.getLiveness(&block);
    SmallVector<Value> all(block.getArguments());
    all.append(info->in().begin(), info->in().end());
    for (Operation &op : block)
      all.append(op.result_begin(), op.result_end());
    DenseMap<Operation *, int64_t> at;
    for (Value v : all) {
      const int64_t n = bytesOf(v);
      if (!n || streams(v))
        continue;
      // The last op that uses it may put its result into the same registers, but a product reads until others use its sums.
      Operation *start = v.getParentBlock() == &block && v.getDefiningOp() ? v.getDefiningOp()->getNextNode() : &block.front();
      Operation *end = info->isLiveOut(v) ? nullptr : info->getEndOperation(v, start ? start : &block.back());
      if (auto product = dyn_cast_or_null<tgpu::WgmmaOp>(end); product && product.getA() == v && product->getBlock() == &block)
        end = firstUser(product);
      for (Operation *op = start; op; op = op->getNextNode()) {
        const bool isLast = op == end;
        if (isLast && op->getNumRegions() == 0)
          break;
        at[op] += n;
        if (isLast)
          break;
      }
    }
    for (Operation &op : block) {
      int64_t made = 0;
      for (Value v : op.getResults())
        made += streams(v) ? 0 : bytesOf(v);
      most = std::max(most, around + at[&op] + made);
      for (Region &region : op.getRegions())
        for (Block &inner : region) {
          int64_t shared = 0;
          for (Value v : liveness.getLiveness(&inner)->in())
            shared += streams(v) ? 0 : bytesOf(v);
          visit(inner, around + at[&op] - shared, most);
        }
    }
  }

  Liveness liveness;
  const int64_t threads;
};

class Keeper {
public:
  Keeper(func::FuncOp func, bool always) : func(func), always(always) {}

  void run() {
    SmallVector<tgpu::StageLoadOp> loads;
    func.walk([&](tgpu::StageLoadOp load) { loads.push_back(load); });
    for (tgpu::StageLoadOp load : loads)
      if (isKept(load) && (always || (hasFixedTrips(load) && fits(load))))
        keep(load);
  }

private:
  /// Products alone read it, as their first operand, and one of them in a loop that it does not change in.
  static bool isKept(tgpu::StageLoadOp load) {
    const Type element = load.getBuffer().getType().getElementType();
    constexpr unsigned matrixBits = 16;
    if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() != matrixBits)
      return false; // what ldmatrix moves
    bool inLoop = false;
    for (OpOperand &use : load->getUses()) {
      auto product = dyn_cast<tgpu::WgmmaOp>(use.getOwner());
      if (!product || use.get() != product.getA() || product.getB() == use.get())
        return false;
      inLoop |= product->getBlock() != load->getBlock();
    }
    return inLoop;
  }

  /// Whether every program takes as many trips. By rule only then: measured, full attention gains 1 to 2.5 %, causal loses 7 to 11 %.
  static bool hasFixedTrips(tgpu::StageLoadOp load) {
    return llvm::all_of(load->getUsers(), [&](Operation *user) {
      for (auto loop = user->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>())
        if (isOfProgram(loop.getLowerBound()) || isOfProgram(loop.getUpperBound()))
          return false;
      return true;
    });
  }
  static bool isOfProgram(Value v) {
    Operation *op = v.getDefiningOp();
    return op && (isa<GridOp>(op) || llvm::any_of(op->getOperands(), [](Value o) { return isOfProgram(o); }));
  }

  bool fits(tgpu::StageLoadOp load) {
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    if (!launch)
      return false;
    const Registers registers(func, launch.getWarps());
    const int64_t more = registers.of(load.getBuffer().getType().bytes());
    return llvm::all_of(load->getUsers(), [&](Operation *user) {
      Operation *around = user;
      while (around->getBlock() != load->getBlock())
        around = around->getParentOp();
      int64_t most = 0;
      if (around != user)
        for (Region &region : around->getRegions())
          for (Block &block : region)
            most = std::max(most, registers.most(block));
      return most + more <= consumerRegisters(launch.getWarps()) - otherRegisters;
    });
  }

  void keep(tgpu::StageLoadOp load) {
    tgpu::BufferType type = load.getBuffer().getType();
    ArrayRef<int64_t> shape = type.getShape(); // panels, rows, columns
    const int64_t panels = shape[0], rows = shape[1], columns = shape[2];
    Type element = type.getElementType();
    OpBuilder b(func.getContext());
    b.setInsertionPointAfter(load);
    Location loc = load.getLoc();
    SmallVector<tgpu::WgmmaOp> products;
    for (Operation *user : load->getUsers())
      products.push_back(cast<tgpu::WgmmaOp>(user));
    Value v = tgpu::CopyOutOp::create(b, loc, RankedTensorType::get({panels, rows, columns}, element), load.getBuffer());
    if (panels > 1)
      v = PermuteOp::create(b, loc, RankedTensorType::get({rows, panels, columns}, element), v, b.getDenseI64ArrayAttr({1, 0, 2}));
    v = ReshapeOp::create(b, loc, RankedTensorType::get({rows, panels * columns}, element), v);
    Value across;
    for (tgpu::WgmmaOp product : products) {
      if (product.getAMn() && !across)
        across = PermuteOp::create(b, loc, RankedTensorType::get({panels * columns, rows}, element), v, b.getDenseI64ArrayAttr({1, 0}));
      product.getAMutable().assign(product.getAMn() ? across : v);
      product.setAMn(false);
    }
  }

  func::FuncOp func;
  const bool always;
};

struct KeepOperands : sectile::passes::impl::KeepOperandsPassBase<KeepOperands> {
  using KeepOperandsPassBase::KeepOperandsPassBase;

  void runOnOperation() override {
    if (keep != 1)
      Keeper(getOperation(), keep == 2).run();
  }
};

} // namespace
