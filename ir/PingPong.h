// SPDX-License-Identifier: Apache-2.0
/// \file Ping-pong: the consumers of a block are several groups of warps, each of which takes programs of its own.
///
/// Every group is a block in small: it has the launch's `warps`, its own part of the shared memory, its own pipes and its
/// own thread that fills them; the block number of group g of block b of G is g G + b. They share a multiprocessor's registers by
/// setmaxnreg, and its tensor cores by turns: while one multiplies, the other one stores what it has.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace sectile::tgpu {

inline constexpr llvm::StringLiteral groupsAttr = "tgpu.groups";     ///< i64, on the function; absent: 1
inline constexpr llvm::StringLiteral turnTakeAttr = "tgpu.turn_take"; ///< unit, on an op of the consumers: its turn begins before it
inline constexpr llvm::StringLiteral turnPassAttr = "tgpu.turn_pass"; ///< unit: its turn ends behind it

} // namespace sectile::tgpu
