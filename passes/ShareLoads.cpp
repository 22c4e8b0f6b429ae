// SPDX-License-Identifier: Apache-2.0
/// \file ShareLoads: pairs of blocks load once what both need.
///
/// Before: one program per block, its staged loads. After: where neighbouring programs along an axis of the iteration space load
/// the same, `tgpu.pair` on the function names that axis, and `tgpu.shared_load` marks those loads: two blocks, a
/// cluster, are to take such programs at the same time, each loads half of a shared tile and sends it to both (TMA multicast).
/// Other kernels are unchanged, with a remark where pairs were asked for.
///
/// An axis can have pairs if the trips and ways of all loops and branches around staged loads do not depend on the program's place
/// along it, so that both programs take equally long; a load is the same for both if its offsets do not either. Then both
/// blocks fill and release the slots of its pipe equally often, in the same order, which CheckPipeline proves of what
/// comes out. Of several axes the one with the most shared bytes is taken.
///
/// By rule pairs are formed where rows of a tensor with shared loads start inside the lines of the L2 cache: the TMA unit then asks for
/// each row's ends twice, and waits for requests, not for bytes; half of the rows are half of the requests. Measured on an H200: a
/// product of 1000 cubed (rows of 2000 bytes) 11.1 us in place of 12.9, one of 1024 cubed 9.5 in place of 9.3: the L2 cache merges
/// equal requests of neighbours by itself.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

#include "ir/Dependence.h"
#include <sectile/Targets.h>

namespace sectile::passes {
#define GEN_PASS_DEF_SHARELOADSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::passes;

namespace {

constexpr int64_t swizzledRows = 8; ///< of one pattern of a swizzle

/// A buffer that two halves fill: of its panels, or of the rows of each.
bool hasHalves(tgpu::StageLoadOp load) {
  ArrayRef<int64_t> shape = load.getBuffer().getType().getShape();
  if (shape[0] % 2 == 0)
    return true;
  const auto axis = slowestRows(load.getMap());
  return axis && load.getMap().getBox()[*axis] % 2 == 0 && shape[1] / 2 % swizzledRows == 0;
}

struct ShareLoads : sectile::passes::impl::ShareLoadsPassBase<ShareLoads> {
  using ShareLoadsPassBase::ShareLoadsPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    loads.clear();
    func.walk([&](tgpu::StageLoadOp op) { loads.push_back(op); });
    if (loads.empty() || multicast == 1)
      return;
    const std::string why = form(func);
    if (!why.empty() && multicast == 2)
      addRemark(func, "ShareLoads", loads.front().getLoc(), "no pairs of blocks that load together: " + why);
  }

private:
  /// Why there are no pairs; empty: there are.
  std::string form(func::FuncOp func) {
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    const Target *target = arch ? findTarget(std::string_view(arch.getValue())) : nullptr;
    auto grids = func.getOps<tileir::GridOp>();
    if (!target || !target->has(Feature::multicast) || !target->has(Feature::clusters))
      return "the target has no loads for several blocks";
    if (grids.empty())
      return "there is one program";
    if (blocksPerProgram(func) > 1)
      return "several blocks run one program";
    if (!func.getOps<tgpu::SplitRangeOp>().empty())
      return "blocks share the loop of a program";
    tileir::GridOp grid = *grids.begin();
    int64_t most = 0;
    unsigned best = 0;
    SmallVector<tgpu::StageLoadOp> shared;
    std::string trips;
    for (unsigned axis = 0; axis < grid.getNumResults(); ++axis) {
      const tileir::Dependence dependence(grid.getResult(axis));
      // Programs of different length would wait for each other.
      if (llvm::any_of(loads, [&](tgpu::StageLoadOp load) { return dependence.ofControl(load); })) {
        trips = "how often a loop with loads runs depends on the program's place along axis " + std::to_string(axis);
        continue;
      }
      SmallVector<tgpu::StageLoadOp> same;
      int64_t bytes = 0;
      for (tgpu::StageLoadOp load : loads) {
        if (load.getCopyBytes() || llvm::any_of(load.getOffsets(), [&](Value v) { return dependence.of(v); }) || !hasHalves(load))
          continue;
        same.push_back(load);
        bytes += load.getBuffer().getType().bytes() * (load->getParentOfType<scf::ForOp>() ? loopWeight : 1);
      }
      if (bytes > most) {
        most = bytes;
        best = axis;
        shared = same;
      }
    }
    if (shared.empty())
      return trips.empty() ? "no two neighbouring programs load the same by the TMA unit" : trips;
    if (multicast == 0 && !pays(shared))
      return "rows of the tensors that both load start at lines of the L2 cache, or may";
    Builder b(func.getContext());
    func->setAttr(tgpu::pairAttr, b.getI64IntegerAttr(best));
    func->setAttr(clusterReasonAttr, b.getStringAttr("neighbours along axis " + std::to_string(best) + " load " + std::to_string(shared.size()) +
                                                     (shared.size() == 1 ? " tile" : " tiles") + " together"));
    func->removeAttr(tgpu::streamRangeAttr); // one or the other
    for (tgpu::StageLoadOp load : shared)
      load->setAttr(tgpu::sharedLoadAttr, b.getUnitAttr());
    widenWishes(func, tileir::Dependence(grid.getResult(best)));
    return {};
  }

  /// What one program loads of a tensor that a launch may copy first (tgpu.repack), counted for the pair, which is one program there.
  static void widenWishes(func::FuncOp func, const tileir::Dependence &dependence) {
    DenseSet<Value> done;
    func.walk([&](tgpu::GlobalLoadOp load) {
      auto arg = dyn_cast<BlockArgument>(load.getX());
      auto wish = arg && arg.getOwner() == &func.getBody().front()
                      ? func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), tgpu::repackAttr)
                      : DenseI64ArrayAttr();
      if (!wish || !done.insert(arg).second)
        return;
      SmallVector<int64_t> wide(wish.asArrayRef());
      for (auto [length, offset] : llvm::zip(MutableArrayRef(wide).drop_front(), load.getOffsets()))
        if (dependence.of(offset))
          length *= 2;
      func.setArgAttr(arg.getArgNumber(), tgpu::repackAttr, Builder(func.getContext()).getDenseI64ArrayAttr(wide));
    });
  }

  /// See above.
  static bool pays(ArrayRef<tgpu::StageLoadOp> shared) {
    return llvm::any_of(shared, [](tgpu::StageLoadOp load) { return load->getParentOfType<scf::ForOp>() && startsInLines(load.getX()); });
  }
  /// Rows of the tensor do not all start at lines of the L2 cache, as far as their stride tells.
  static bool startsInLines(Value tensor) {
    auto arg = dyn_cast<BlockArgument>(tensor);
    auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    if (!func)
      return false;
    auto strides = func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), tileir::strideDivAttr);
    auto unit = func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), tileir::unitStrideAttr);
    const int64_t bytes = byteSize(*tileir::dtypeOfType(cast<tileir::TensorType>(arg.getType()).getElementType()));
    return strides && unit && llvm::any_of(llvm::enumerate(strides.asArrayRef()), [&](auto axis) {
             return int64_t(axis.index()) != unit.getInt() && axis.value() < mostKnown && axis.value() * bytes < lineBytes;
           });
  }

  static constexpr int64_t lineBytes = 128;
  static constexpr int64_t mostKnown = 16; ///< larger powers of two that divide a stride are told as this one (ir/base/Artifact.h)
  static constexpr int64_t loopWeight = 16; ///< loads of a loop count as so many
  SmallVector<tgpu::StageLoadOp> loads;
};

} // namespace
