// SPDX-License-Identifier: Apache-2.0
#include "passes/PairMatch.h"
#include "passes/TensorMaps.h"

#include "ir/Dependence.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace sectile::passes {

namespace {

bool isShared(tgpu::PipeCreateOp pipe) {
  return llvm::any_of(pipe->getUsers(), [](Operation *user) {
    auto load = dyn_cast<tgpu::TmaLoadOp>(user);
    return load && load.getMulticast();
  });
}

/// v is rank * n, or that and something else, which is `rest`.
bool isPart(Value v, int64_t n, Value &rest) {
  auto op = v.getDefiningOp<tileir::BinaryOp>();
  if (!op)
    return false;
  for (auto [x, y] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
    if (op.getFn() == tileir::BinaryFn::k_add && isPart(y, n, rest) && !rest) {
      rest = x;
      return true;
    }
    IntegerAttr factor;
    if (op.getFn() == tileir::BinaryFn::k_mul && x.getDefiningOp<tgpu::PairRankOp>() && matchPattern(y, m_Constant(&factor)) &&
        factor.getInt() == n)
      return true;
  }
  return false;
}

} // namespace

int64_t PairMatch::blocksThatRelease(tgpu::PipeCreateOp pipe) { return isShared(pipe) ? 2 : 1; }

LogicalResult PairMatch::run() {
  auto func = roles->getParentOfType<func::FuncOp>();
  SmallVector<Value> ranks;
  func.walk([&](tgpu::PairRankOp op) { ranks.push_back(op.getRank()); });
  const tileir::Dependence rank(ranks);
  for (tgpu::PipeCreateOp pipe : func.getOps<tgpu::PipeCreateOp>()) {
    const int64_t number = match.numberOf(pipe.getPipe());
    const bool shared = isShared(pipe);
    for (Operation *user : pipe->getUsers()) {
      if (shared && rank.ofControl(user))
        return mlir::emitError(user->getLoc())
               << "both blocks of a pair fill the slots of pipe " << number
               << ", and how often this is done depends on which block it is [check_pipeline_c18]; loops and branches around it must "
                  "be the same in both";
      if (auto release = dyn_cast<tgpu::PipeReleaseOp>(user); release && release.getPair() != shared)
        return mlir::emitError(user->getLoc())
               << "a slot of pipe " << number << " is released to " << (shared ? "1 block, and 2 fill it" : "2 blocks, and 1 fills it")
               << " [check_pipeline_c19]; " << (shared ? "release it to the pair" : "release it to this block alone");
      if (auto load = dyn_cast<tgpu::TmaLoadOp>(user); load && load.getMulticast() && failed(checkHalf(load, rank)))
        return failure();
    }
  }
  return success();
}

/// The halves of both blocks come to both, and are those of one tile.
LogicalResult PairMatch::checkHalf(tgpu::TmaLoadOp load, const tileir::Dependence &rank) {
  const int64_t number = match.numberOf(load.getPipe());
  if (*load.getMulticast() != 3)
    return mlir::emitError(load.getLoc())
           << "half of a buffer of pipe " << number << " goes to the blocks of the bits " << int64_t(*load.getMulticast())
           << ", and both blocks of the pair wait for it [check_pipeline_c20]; the bits must be 3";
  tgpu::MapAttr map = load.getMap();
  const auto [panels, rows] = load.panelsAndRows();
  const bool byRows = rows != load.filled().getShape()[1];
  // Half of the rows are half of those along the slowest axis, which may have one left.
  const auto slowest = slowestRows(map);
  const int64_t last = slowest ? map.getOrder()[*slowest] : int64_t(map.getOrder().size());
  std::optional<int64_t> axis;
  for (auto [i, offset] : llvm::enumerate(load.getOffsets())) {
    if (!rank.of(offset))
      continue;
    const auto n = size_t(llvm::find(map.getOrder(), int64_t(i)) - map.getOrder().begin());
    Value rest;
    if (axis || (n == 0) == byRows || (byRows && int64_t(i) > last) || !isPart(offset, byRows ? map.getBox()[n] : panels * map.getBox()[0], rest) ||
        (rest && rank.of(rest)))
      return mlir::emitError(load.getLoc())
             << "offset " << int64_t(i) << " of half a buffer of pipe " << number
             << " is not proved to be that of the pair's tile and this block's half of it [check_pipeline_c20]; it must be the "
                "tile's offset plus the block's rank times the length of half";
    axis = int64_t(i);
  }
  if (!axis)
    return mlir::emitError(load.getLoc()) << "both halves of a buffer of pipe " << number
                                          << " come from the same place [check_pipeline_c20]; one offset must move with the block's rank";
  return success();
}

} // namespace sectile::passes
