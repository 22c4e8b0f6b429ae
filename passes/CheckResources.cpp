// SPDX-License-Identifier: Apache-2.0
/// \file CheckResources: target limits as errors at the user's line.
///
/// Before: placed memory. After: unchanged; fails with both numbers if shared memory or registers pass the
/// target's limits, or sums of products those of a thread by far.

#include "passes/Passes.h"
#include "passes/Support.h"

namespace sectile::passes {
#define GEN_PASS_DEF_CHECKRESOURCESPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// A tile larger than this multiple of the register file of a thread is refused: it would only spill, and its
/// code would be unrolled without measure.
constexpr int64_t spillFactor = 8;
/// The same of the sums of a product and of what the loops around it carry, which registers hold from one matrix instruction to the
/// next: the assembler looks for places for minutes, and the code would do nothing but spill. In halves; fewer where products
/// are asynchronous, which the assembler would make wait for each other.
constexpr int64_t productHalves = 7, asynchronousHalves = 3;

struct CheckResources : sectile::passes::impl::CheckResourcesPassBase<CheckResources> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    const Target *target = arch ? findTarget(std::string_view(arch.getValue())) : nullptr;
    if (!launch || !target) {
      func.emitError()
          << "has no launch geometry or no known target [check_resources_c3]; run sectile-select-mma first";
      return signalPassFailure();
    }
    if (failed(checkShared(func, launch, *target)) || failed(checkRegisters(func, launch, *target)) || failed(checkSums(func, launch, *target)))
      signalPassFailure();
  }

  /// Of the sums of `product` and of what the loops around it carry, the registers of a thread.
  static int64_t registersHeld(Operation *product, LayoutCache &layouts) {
    auto sumsOf = [](Operation *op) -> Value {
      if (auto wgmma = dyn_cast_or_null<tgpu::WgmmaOp>(op))
        return wgmma.getAcc();
      auto sync = dyn_cast_or_null<tgpu::MmaSyncOp>(op);
      return sync ? sync.getAcc() : Value();
    };
    int64_t bytes = 0;
    auto add = [&](Value v) {
      auto tile = dyn_cast<RankedTensorType>(v.getType());
      if (tile && tile.getEncoding())
        bytes += int64_t(layouts.of(v).numRegs()) * int64_t(byteSize(*dtypeOfType(tile.getElementType())));
    };
    for (auto loop = product->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>())
      llvm::for_each(loop.getRegionIterArgs(), add);
    Value sums = sumsOf(product);
    while (Value earlier = sumsOf(sums.getDefiningOp()))
      sums = earlier;
    if (!isa<BlockArgument>(sums))
      add(product->getResult(0));
    return bytes / 4;
  }

  LogicalResult checkSums(func::FuncOp func, tgpu::LaunchAttr launch, const Target &target) {
    const int64_t threads = (launch.getWarps() + launch.getProducers()) * target.warpSize;
    int64_t has = std::min<int64_t>(target.registersPerThread, target.registersPerSm / threads);
    for (auto roles : func.getOps<tgpu::RolesOp>()) // what the producer gives away
      has = std::max<int64_t>(has, int64_t(roles.getConsumerRegs()));
    LayoutCache layouts(&getContext());
    auto result = func.walk([&](Operation *op) {
      if (!isa<tgpu::MmaSyncOp, tgpu::WgmmaOp>(op))
        return WalkResult::advance();
      const int64_t held = registersHeld(op, layouts);
      if (2 * held <= (isa<tgpu::WgmmaOp>(op) ? asynchronousHalves : productHalves) * has)
        return WalkResult::advance();
      op->emitError() << "needs " << held << " registers in each of " << launch.getWarps() * target.warpSize
                      << " threads for sums of products and what loops carry, " << target.arch << " has " << has
                      << " per thread [check_resources_c4]; pick smaller tiles or more warps";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult checkShared(func::FuncOp func, tgpu::LaunchAttr launch, const Target &target) {
    if (launch.getSharedBytes() <= target.sharedBytesPerBlock)
      return success();
    // The largest buffer is the line to change.
    tgpu::BufferAllocOp largest;
    func.walk([&](tgpu::BufferAllocOp alloc) {
      if (!largest || alloc.getType().bytes() > largest.getType().bytes())
        largest = alloc;
    });
    Location loc = largest ? largest.getLoc() : func.getLoc();
    return mlir::emitError(loc) << "needs " << launch.getSharedBytes() << " bytes of shared memory, "
                                << target.arch << " allows " << target.sharedBytesPerBlock
                                << " [check_resources_c1]; pick smaller tiles";
  }

  LogicalResult checkRegisters(func::FuncOp func, tgpu::LaunchAttr launch, const Target &target) {
    LayoutCache layouts(&getContext());
    int64_t most = spillFactor * target.registersPerThread;
    auto result = func.walk([&](Operation *op) {
      for (Value v : op->getResults()) {
        auto tile = dyn_cast<RankedTensorType>(v.getType());
        if (!tile || !tile.getEncoding())
          continue;
        int64_t bytes = int64_t(byteSize(*dtypeOfType(tile.getElementType())));
        int64_t registers = int64_t(layouts.of(v).numRegs()) * std::max<int64_t>(bytes, 4) / 4;
        if (registers <= most)
          continue;
        mlir::emitError(op->getLoc())
            << "needs " << registers << " registers in each of " << launch.allWarps() * target.warpSize
            << " threads for one tile " << describe(tile) << ", " << target.arch << " has "
            << target.registersPerThread
            << " per thread [check_resources_c2]; pick smaller tiles or more warps";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};

} // namespace
