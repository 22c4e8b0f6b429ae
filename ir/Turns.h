// SPDX-License-Identifier: Apache-2.0
/// \file Turns of the two warpgroups that share a program.
///
/// Where threads of a loop work about as long as its products take, one warpgroup issues the products of an iteration while the
/// other one works. Which op begins and which ends a turn: see ir/PingPong.h.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace sectile::tgpu {

/// On the function. Before SpecialiseWarps an i64: 1, no turns, or 2, wherever there can be. Behind it a unit: there are some.
inline constexpr llvm::StringLiteral turnsAttr = "tgpu.turns";

} // namespace sectile::tgpu
