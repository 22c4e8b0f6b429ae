// SPDX-License-Identifier: Apache-2.0
/// \file Tile maps: index values as linear forms, and which bounds decide the lanes of a value. Used to prove that two
/// kernels mean the same tile of a tensor, and to find the length of an output that its kernel leaves open.
#pragma once

#include "ir/TileDialect.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <tuple>

namespace sectile::passes {

/// On an argument of a kernel that is part of a chain. What equal numbers mean is promised by whoever joined the kernels.
inline constexpr llvm::StringLiteral chainTensorAttr = "tile.chain_tensor";       ///< i64: the tensor's or scalar's number
inline constexpr llvm::StringLiteral chainLengthsAttr = "tile.chain_lengths";     ///< array<i64> by axis: equal numbers, equal lengths
inline constexpr llvm::StringLiteral chainTemporaryAttr = "tile.chain_temporary"; ///< unit: read by later kernels of the chain alone

/// One value that linear forms are made of: a length, or an index value that is not looked into.
struct IndexSymbol {
  const void *value = nullptr; ///< null: lengths of one number of tile.chain_lengths
  int64_t axis = -1;           ///< of a tensor's length; that number
  auto operator<=>(const IndexSymbol &) const = default;
};

/// constant + sum of factors * symbols, modulo 2^64 as index values are.
struct IndexForm {
  uint64_t constant = 0;
  std::map<IndexSymbol, uint64_t> terms; ///< none is 0
  bool operator==(const IndexForm &) const = default;
  bool isConstant() const { return terms.empty(); }
};

/// Lane c of an axis exists only where offset + c is in [0, length).
struct LaneBound {
  mlir::Value tensor; ///< an argument of the kernel
  int64_t axis = 0;   ///< whose length it is
  IndexSymbol length;
  IndexForm offset;
  bool operator==(const LaneBound &o) const { return length == o.length && offset == o.offset; }
};

/// What decides the lanes of one axis of a value; without bounds all of them exist.
struct AxisLanes {
  llvm::SmallVector<LaneBound, 2> bounds; ///< no two are equal
  mlir::Operation *unclear = nullptr;     ///< an op whose lanes are not followed; then `bounds` may lack some
};

/// Forms and lanes of one kernel; make a new object after values have been erased.
class TileMaps {
public:
  IndexForm form(mlir::Value index);
  /// The length of an axis of a view; none if a slice of that axis decides it.
  std::optional<IndexSymbol> length(mlir::Value tensor, int64_t axis);
  AxisLanes lanes(mlir::Value tile, int64_t axis);
  /// Whether lanes 0 to count - 1 behind this offset exist in every program that runs, because the grid covers that axis
  /// element by element.
  bool alwaysInside(const IndexForm &offset, const IndexSymbol &length, int64_t count);
  /// An op that masks lanes of this tile, or is not followed; null: no lane is masked.
  mlir::Operation *mask(mlir::Value tile);

private:
  void addLanes(mlir::Value tile, int64_t axis, AxisLanes &lanes);
  mlir::Operation *findMask(mlir::Value tile);
  llvm::DenseSet<std::pair<mlir::Value, int64_t>> seen;
  llvm::DenseSet<mlir::Value> maskSeen;
};

} // namespace sectile::passes
