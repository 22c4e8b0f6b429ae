// SPDX-License-Identifier: Apache-2.0
/// \file Proves that the two blocks of a pair go through the slots that they fill together in the same order and number.
#pragma once

#include "passes/RoleMatch.h"

namespace sectile::tileir {
class Dependence;
}

namespace sectile::passes {

/// Both blocks run the same roles, and differ in the value of tgpu.pair_rank. Where no loop or branch around an op of a pipe
/// depends on it, both take that pipe's slots equally often; RoleMatch orders the slots of all pipes in one list, so the
/// slots of such pipes stand in one order for the producers and consumers of both.
///
/// Let such a pipe have S slots. Fill n of either block waits for release n - S of both: `empty` counts the warps of both, and
/// every release arrives at both. `full` of fill n waits for both halves. So nobody is a round ahead of anybody: the parities
/// of both barriers tell phases apart as within one block. Nobody waits for ever: of all waits that would, in the order of
/// the common list, take a first one. If it is for a release, all fills before it were awaited in both blocks, and the
/// consumers of both hold fewer than S slots when they go on, so both have released. If it is for a half of the other
/// block, that block stands before its fill n, at a wait that is earlier in the list, or waits for a release as above.
class PairMatch {
public:
  PairMatch(tgpu::RolesOp roles, const RoleMatch &match) : roles(roles), match(match) {}
  /// Emits at the user's line what is not proved. Without pairs there is nothing to prove.
  mlir::LogicalResult run();
  /// The arrivals that a slot's `empty` needs of the consumers: this many times the warps of a block.
  static int64_t blocksThatRelease(tgpu::PipeCreateOp pipe);

private:
  mlir::LogicalResult checkHalf(tgpu::TmaLoadOp load, const tileir::Dependence &rank);

  tgpu::RolesOp roles;
  const RoleMatch &match;
};

} // namespace sectile::passes
