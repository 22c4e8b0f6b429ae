// SPDX-License-Identifier: Apache-2.0
/// \file Turns of the two warpgroups that share a program.
///
/// Where threads of a loop work about as long as its products take, one warpgroup issues the products of an iteration while the
/// other one works. Which op begins and which ends a turn: see ir/PingPong.h.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace sectile::tgpu {

/// On the function. Before SpecialiseWarps an i64: 1, no turns, or 2, wherever there can be. Behind it a unit: there are some.
inline constexpr llvm::StringLiteral turnsAttr = "tgpu.turns";

/// Why warpgroups that share a program could wait for each other for ever if a turn began before `take`, and where; no text if they cannot.
/// While one has its turn the other one stands before its own, so nothing in a turn may wait for what the other one does behind there: no
/// barrier of both, and no slot behind a release, as the other's release of the same slot may be what is waited for. Both must
/// meet the turn equally often: no branch around it is one that each warp takes alone.
struct TurnFault {
  mlir::Operation *at = nullptr;
  llvm::StringRef what;
};
TurnFault faultOfTurn(mlir::Operation *take);

} // namespace sectile::tgpu
