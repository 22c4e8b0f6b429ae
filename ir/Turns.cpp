// SPDX-License-Identifier: Apache-2.0
/// \file Which turns of warpgroups are free of deadlock.
#include "ir/Turns.h"

#include "ir/PingPong.h"
#include "ir/TgpuDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace sectile::tgpu {

TurnFault faultOfTurn(Operation *take) {
  for (Operation *around = take->getParentOp(); around && !isa<RolesOp>(around); around = around->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(around); branch && branch.getCondition().getDefiningOp<WarpAnyOp>())
      return {around, "warps take the branch around it alone"};
  Operation *released = nullptr;
  for (Operation *op = take; op; op = op->getNextNode()) {
    if (op != take && op->hasAttr(turnTakeAttr))
      return {op, "a second one begins in it"};
    TurnFault fault;
    op->walk([&](Operation *inner) {
      if (isa<BarrierOp, ClusterStartOp, PeerWaitOp>(inner))
        fault = {inner, "all threads meet in it"};
      else if (isa<PipeReleaseOp>(inner))
        released = inner;
      else if (isa<PipeWaitOp>(inner) && released)
        fault = {inner, "it waits for a slot behind a release"};
      return fault.at ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (fault.at || op->hasAttr(turnPassAttr))
      return fault;
  }
  return {take, "nothing ends it"};
}

} // namespace sectile::tgpu
