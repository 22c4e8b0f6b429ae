// SPDX-License-Identifier: Apache-2.0
/// \file PlanRegisters: how many registers a thread needs at most at once, and so how many blocks can share a
/// multiprocessor.
///
/// Before: final ops. After: unchanged but for `tgpu.min_blocks` on the function: blocks per multiprocessor that
/// the assembler should leave room for. Left to itself it takes what one block can have, and memory waits for
/// the one block. Tiles live at the same time are counted in 32-bit words; elements of 16 bits lie in pairs.

#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/Analysis/Liveness.h"

namespace sectile::passes {
#define GEN_PASS_DEF_PLANREGISTERSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

constexpr int64_t addressing = 26; ///< registers beside those of tiles: addresses, bounds, counters, temporaries
constexpr int64_t division = 16;   ///< more where tiles are divided: the rare operands go through a call
constexpr int64_t unit = 8;        ///< registers are given out in multiples of this

struct PlanRegisters : sectile::passes::impl::PlanRegistersPassBase<PlanRegisters> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    const Target *target = arch ? findTarget(std::string_view(arch.getValue())) : nullptr;
    if (!launch || !target) {
      func.emitError()
          << "has no launch geometry or no known target [plan_registers_c1]; run sectile-select-mma first";
      return signalPassFailure();
    }
    // Products want all the registers that they can get.
    bool hasProduct = func.walk([](Operation *op) {
                            return isa<tgpu::MmaSyncOp, tgpu::MmaFmaOp, tgpu::WgmmaOp>(op) ? WalkResult::interrupt()
                                                                           : WalkResult::advance();
                          })
                          .wasInterrupted();
    if (hasProduct)
      return;
    LayoutCache layouts(&getContext());
    Liveness liveness(func);
    int64_t most = 0;
    for (Block &block : func.getBody())
      peak(block, 0, layouts, liveness, most);
    bool divides = func.walk([&](BinaryOp op) {
                         return op.getFn() == BinaryFn::k_div && isTile(op.getResult()) &&
                                        isa<FloatType>(elementOf(op.getType())) &&
                                        layouts.of(op.getResult()).numRegs() >= 4
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
    int64_t others = addressing + (divides ? division : 0);
    int64_t perThread = (most / 2 + others + unit - 1) / unit * unit; // `most` counts half words
    int64_t threads = int64_t(launch.getWarps()) * target->warpSize;
    int64_t blocks = std::min<int64_t>(target->registersPerSm / (threads * perThread), target->threadsPerSm / threads);
    blocks = std::min<int64_t>(blocks, target->blocksPerSm);
    if (int64_t shared = launch.getSharedBytes())
      blocks = std::min<int64_t>(blocks, target->sharedBytesPerSm / (shared + 1024));
    if (blocks > 1)
      func->setAttr(tgpu::minBlocksAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), blocks));
  }

  /// 16-bit words of a tile in each thread. Repeated and constant tiles are names of other registers.
  static int64_t words(Value v, LayoutCache &layouts) {
    auto tile = dyn_cast<RankedTensorType>(v.getType());
    if (!tile || !tile.getEncoding() || tile.getElementType().isInteger(1) ||
        isa_and_nonnull<BroadcastOp, ConstantOp, SplatOp, IotaOp>(v.getDefiningOp()))
      return 0;
    if (isFolded(v))
      return 0;
    int64_t bytes = int64_t(byteSize(*dtypeOfType(tile.getElementType())));
    int64_t registers = layouts.of(v).numRegs();
    return bytes >= 2 ? registers * bytes / 2 : (registers + 1) / 2;
  }

  /// A value that a reduction takes up element by element as it is made.
  static bool isFolded(Value v) {
    if (!v.hasOneUse() || !isa_and_nonnull<UnaryOp, BinaryOp, FmaOp, CastOp, tgpu::FillOutsideOp>(v.getDefiningOp()))
      return false;
    Operation *user = *v.getUsers().begin();
    return isa<tgpu::ReduceOp>(user) ||
           (isa<UnaryOp, BinaryOp, FmaOp, CastOp, tgpu::FillOutsideOp>(user) && isFolded(user->getResult(0)));
  }

  void peak(Block &block, int64_t around, LayoutCache &layouts, Liveness &liveness, int64_t &most) {
    const LivenessBlockInfo *info = liveness.getLiveness(&block);
    DenseMap<Operation *, int64_t> at;
    for (Operation &op : block)
      at[&op] = around;
    SmallVector<Value> candidates(block.getArguments());
    for (Value v : info->in())
      candidates.push_back(v);
    for (Operation &op : block)
      llvm::append_range(candidates, op.getResults());
    for (Value v : candidates) {
      int64_t n = words(v, layouts);
      if (n == 0)
        continue;
      // The last op that uses it may put its result in the same registers.
      bool outside = v.getParentBlock() != &block;
      Operation *start = outside || isa<BlockArgument>(v) ? &block.front() : v.getDefiningOp()->getNextNode();
      Operation *end = info->getEndOperation(v, start ? start : &block.back());
      bool leaves = info->isLiveOut(v);
      for (Operation *op = start; op; op = op->getNextNode()) {
        if (op == end && !leaves && op->getNumRegions() == 0)
          break;
        at[op] += n;
        if (op == end && !leaves)
          break;
      }
    }
    for (Operation &op : block) {
      int64_t made = 0;
      for (Value v : op.getResults())
        made += words(v, layouts);
      most = std::max(most, at[&op] + made);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          peak(inner, at[&op] - liveInto(inner, layouts, liveness), layouts, liveness, most);
    }
  }

  /// What a nested block counts itself.
  static int64_t liveInto(Block &block, LayoutCache &layouts, Liveness &liveness) {
    int64_t n = 0;
    for (Value v : liveness.getLiveness(&block)->in())
      n += words(v, layouts);
    return n;
  }
};

} // namespace
