// SPDX-License-Identifier: Apache-2.0
/// \file The `tgpu` dialect: layouts, buffers, copies, barriers, atoms. See TgpuOps.td.
#pragma once

#include "ir/TileDialect.h"
#include "ir/base/Artifact.h"
#include "ir/base/LaunchExpr.h"
#include "ir/base/Layout.h"

#include "mlir/IR/TensorEncoding.h"

#include "ir/TgpuDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/TgpuAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/TgpuTypes.h.inc"
#define GET_OP_CLASSES
#include "ir/TgpuOps.h.inc"

namespace sectile::tgpu {

inline constexpr llvm::StringLiteral launchAttr = "tgpu.launch"; ///< #tgpu.launch, on the function
inline constexpr llvm::StringLiteral targetAttr = "tgpu.target"; ///< "sm_90a", on the function
inline constexpr llvm::StringLiteral minBlocksAttr = "tgpu.min_blocks"; ///< i64, on the function: see PlanRegisters
inline constexpr llvm::StringLiteral evictAttr = "tgpu.evict"; ///< "first" or "last", on an access: see HintEviction
inline constexpr llvm::StringLiteral alignedAttr = "tgpu.aligned"; ///< i64 bytes: alignment of an access's first element

/// unit, on the function: it is right only for arguments as tile.apart promises
inline constexpr llvm::StringLiteral assumesApartAttr = "tgpu.assumes_apart";
/// [unit axis, elements that a program reads per axis..], on a tensor argument: see Repack in ir/base/Artifact.h
/// On the function: bounds and step of the loop that Stream-K would share, as argument, axis, value each (LaunchNumber), the
/// bytes that a part leaves, and the cycles of a trip.
inline constexpr llvm::StringLiteral streamRangeAttr = "tgpu.stream_range";
inline constexpr llvm::StringLiteral repackAttr = "tgpu.repack";
/// i64, on the function: the axis of the iteration space along which the two blocks of a cluster take neighbouring programs.
inline constexpr llvm::StringLiteral pairAttr = "tgpu.pair";
/// unit, on a tgpu.stage_load: both blocks of a pair load the same, half each.
inline constexpr llvm::StringLiteral sharedLoadAttr = "tgpu.shared_load";
inline constexpr llvm::StringLiteral persistentAttr = "tgpu.persistent"; ///< unit, on the function: see tgpu.block_number
inline constexpr int64_t slotAlignment = 1024; ///< of buffers that wgmma and TMA address with a swizzle of 128 bytes

/// The layout of a distributed tile; nullopt if the type has none.
std::optional<Layout> layoutOf(mlir::Type t);
/// The same tile type with this layout as its encoding.
mlir::RankedTensorType withLayout(mlir::Type t, const Layout &layout);
/// The layout of the result of `tgpu.reduce`: `x` collapsed along the axis, with the warp bits that lie on it mapped to
/// consecutive coordinates (as many coordinates as warps hold distinct parts of the axis).
Layout reducedLayout(const Layout &x, int axis);
/// The index as the launch can compute it: a constant, the length of an axis of an argument, an integer argument.
std::optional<LaunchNumber> launchNumber(mlir::Value v);

/// The swizzle of a buffer whose rows are `spanBytes` bytes, as TMA and wgmma swizzle such rows (ir/base/Fragments.h:
/// tmaSwizzle); empty for 16.
llvm::SmallVector<int64_t> tmaSwizzleOf(int64_t spanBytes, int64_t elementBytes);

/// What PadTiles leaves for those who explain a kernel.
inline constexpr llvm::StringLiteral paddedAttr = "tgpu.padded"; ///< [[old, new], ..] tile lengths, on the function
inline constexpr llvm::StringLiteral lengthsAttr = "tgpu.lengths"; ///< true lengths, on accesses of padded tiles

} // namespace sectile::tgpu
