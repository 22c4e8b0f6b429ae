// SPDX-License-Identifier: Apache-2.0
/// \file ChooseCluster: how many blocks run one program together.
///
/// Before: launch geometry with the warps of a block. After: `cluster` in the launch geometry; layouts are
/// made for the warps of all blocks, so that a row too long for the registers of one block lies in those of
/// several and is read once. `tgpu.cluster_reason` on the function says why.
///
/// The rule: as few blocks as keep the largest tile at `registersPerTile` registers per thread. A cluster is
/// for kernels whose threads meet in reductions only, where blocks exchange a word per warp; products,
/// transpositions and other reshapes would send whole tiles.

#include "passes/Passes.h"
#include "passes/Support.h"

#include <bit>

namespace sectile::passes {
#define GEN_PASS_DEF_CHOOSECLUSTERPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Of one tile in each thread: two such tiles and what is computed from them fit without spills, also with
/// several blocks on a multiprocessor.
constexpr int64_t registersPerTile = 32;

/// The op that would send whole tiles between the blocks of a cluster, if there is one.
Operation *needsOneBlock(func::FuncOp func) {
  Operation *found = nullptr;
  func.walk([&](Operation *op) {
    bool moves = isa<MmaOp, tgpu::WgmmaOp>(op);
    if (auto permute = dyn_cast<PermuteOp>(op)) {
      ArrayRef<int64_t> shape = shapeOf(permute.getX().getType());
      SmallVector<int64_t> moving;
      for (int64_t d : permute.getPerm())
        if (shape[size_t(d)] != 1)
          moving.push_back(d);
      moves = !llvm::is_sorted(moving);
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      moves = isTile(reshape.getX()) && isTile(reshape.getResult()) &&
              !unitReshapeMap(shapeOf(reshape.getX().getType()), shapeOf(reshape.getType()));
    }
    if (moves && !found)
      found = op;
  });
  return found;
}

/// Registers of the largest tile over all threads, and whether something is reduced.
std::pair<int64_t, bool> sizeOf(func::FuncOp func) {
  int64_t largest = 1;
  bool reduces = false;
  func.walk([&](Operation *op) {
    reduces |= isa<ReduceOp>(op);
    for (Type t : op->getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(t)) {
        int64_t bytes = int64_t(byteSize(*dtypeOfType(tile.getElementType())));
        // Index tiles are coordinates, which cost a register per thread, not per element.
        if (!isa<IndexType>(tile.getElementType()))
          largest = std::max(largest, tile.getNumElements() * std::max<int64_t>(bytes, 4) / 4);
      }
  });
  return {largest, reduces};
}

struct ChooseCluster : sectile::passes::impl::ChooseClusterPassBase<ChooseCluster> {
  using ChooseClusterPassBase::ChooseClusterPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    auto arch = func->getAttrOfType<StringAttr>(tgpu::targetAttr);
    const Target *target = arch ? findTarget(std::string_view(arch.getValue())) : nullptr;
    if (!launch || !target) {
      func.emitError()
          << "has no launch geometry or no known target [choose_cluster_c1]; run sectile-select-mma first";
      return signalPassFailure();
    }
    int64_t asked = cluster.getValue(), most = target->clusterBlocks;
    if (asked > 1 && most == 1) {
      func.emitError() << "a cluster of " << asked << " blocks, " << target->arch
                       << " has no clusters [choose_cluster_c2]; leave it at 0 or 1";
      return signalPassFailure();
    }
    if (asked < 0 || asked > most || (asked && !std::has_single_bit(uint64_t(asked)))) {
      func.emitError() << "a cluster of " << asked << " blocks, " << target->arch
                       << " runs powers of two from 1 to " << most
                       << " [choose_cluster_c2]; choose one of them, or 0 for the default";
      return signalPassFailure();
    }
    Operation *moves = needsOneBlock(func);
    if (asked > 1 && moves) {
      mlir::emitError(moves->getLoc())
          << "moves whole tiles between threads, and the cluster is set to " << asked
          << " blocks [choose_cluster_c3]; set the cluster to 1, or leave it at 0";
      return signalPassFailure();
    }
    auto [registers, reduces] = sizeOf(func);
    int64_t perBlock = registersPerTile * launch.getWarps() * target->warpSize;
    int64_t wanted = int64_t(std::bit_ceil(uint64_t((registers + perBlock - 1) / perBlock)));
    int64_t count = 1;
    std::string reason;
    llvm::raw_string_ostream why(reason);
    if (asked) {
      count = asked;
      why << "set to " << asked;
    } else if (!func.getOps<tgpu::SplitRangeOp>().empty()) {
      why << "blocks share its loop";
    } else if (!reduces) {
      why << "nothing is reduced";
    } else if (moves) {
      why << moves->getName() << " moves whole tiles between threads";
    } else {
      count = std::min(wanted, most);
      why << "the largest tile has " << registers << " registers, a block " << perBlock << " for it";
      if (count < wanted)
        why << ", " << target->arch << " has clusters of at most " << most;
    }
    func->setAttr(tgpu::launchAttr,
                  tgpu::LaunchAttr::get(&getContext(), launch.getWarps(), launch.getSharedBytes(), count));
    func->setAttr(clusterReasonAttr, StringAttr::get(&getContext(), reason));
  }
};

} // namespace
