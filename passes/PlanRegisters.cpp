// SPDX-License-Identifier: Apache-2.0
/// \file PlanRegisters: how many registers a thread needs at most at once, and so how many blocks can share a
/// multiprocessor.
///
/// Before: final ops. After: unchanged but for `tgpu.min_blocks` on the function: blocks per multiprocessor that
/// the assembler should leave room for. Left to itself it takes what one block can have, and memory waits for
/// the one block. Tiles alive at the same time are counted (passes/RegisterPeak.h).

#include "passes/Passes.h"
#include "passes/RegisterPeak.h"

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
constexpr int64_t narrowDivision = 8; ///< the same where quotients are needed in 16 bits alone
constexpr int64_t unit = 8;        ///< registers are given out in multiples of this

/// Quotients that are needed in 16 bits alone take half of the registers of their numerators, group by group.
bool isNarrowed(BinaryOp op) {
  auto cast = op->hasOneUse() ? dyn_cast<CastOp>(*op->user_begin()) : CastOp();
  return cast && cast->getBlock() == op->getBlock() && elementOf(op.getType()).isF32() &&
         (elementOf(cast.getType()).isF16() || elementOf(cast.getType()).isBF16());
}

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
    const RegisterPeak peak = registerPeak(func.getBody(), layouts, /*initialApart=*/true);
    int64_t others = addressing;
    func.walk([&](BinaryOp op) {
      if (op.getFn() == BinaryFn::k_div && isTile(op.getResult()) && isa<FloatType>(elementOf(op.getType())) &&
          layouts.of(op.getResult()).numRegs() >= 4)
        others = std::max(others, addressing + (isNarrowed(op) ? narrowDivision : division));
    });
    int64_t perThread = (peak.halves / 2 + others + unit - 1) / unit * unit;
    int64_t threads = int64_t(launch.getWarps()) * target->warpSize;
    int64_t blocks = std::min<int64_t>(target->registersPerSm / (threads * perThread), target->threadsPerSm / threads);
    blocks = std::min<int64_t>(blocks, target->blocksPerSm);
    if (int64_t shared = launch.getSharedBytes())
      blocks = std::min<int64_t>(blocks, target->sharedBytesPerSm / (shared + 1024));
    if (blocks > 1)
      func->setAttr(tgpu::minBlocksAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), blocks));
  }
};

} // namespace
