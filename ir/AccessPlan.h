// SPDX-License-Identifier: Apache-2.0
/// \file Which registers of a thread travel together in one memory instruction. One plan for all: code
/// generation issues it, layouts are chosen for it, the executor counts and checks it.
#pragma once

#include "ir/IndexFacts.h"
#include "ir/base/Swizzle.h"

namespace sectile::tgpu {

/// Bytes of the widest access of a thread.
inline constexpr int64_t widestAccess = 16;

/// A bounded access to a tensor view, as the ops name it.
struct GlobalAccess {
  mlir::Value tensor;
  mlir::ValueRange offsets;
  llvm::ArrayRef<int64_t> axes; ///< the bounded ones
  mlir::ValueRange lo, hi;
  mlir::Value mask; ///< null: none
  mlir::Type tile;
  int64_t alignedBytes = 0; ///< alignment of the first element, where AlignRows proved it
  GlobalAccess(mlir::Value tensor, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> axes,
               mlir::ValueRange lo, mlir::ValueRange hi, mlir::Value mask, mlir::Type tile)
      : tensor(tensor), offsets(offsets), axes(axes), lo(lo), hi(hi), mask(mask), tile(tile) {}
  explicit GlobalAccess(GlobalLoadOp op)
      : GlobalAccess(op.getX(), op.getOffsets(), op.getAxes(), op.getLo(), op.getHi(), {}, op.getType()) {
    takeAlignment(op);
  }
  explicit GlobalAccess(GlobalStoreOp op)
      : GlobalAccess(op.getX(), op.getOffsets(), op.getAxes(), op.getLo(), op.getHi(), op.getMask(),
                     op.getValue().getType()) {
    takeAlignment(op);
  }

private:
  void takeAlignment(mlir::Operation *op) {
    if (auto bytes = op->getAttrOfType<mlir::IntegerAttr>(alignedAttr))
      alignedBytes = bytes.getInt();
  }
};

/// Aligned runs of `elems` coordinates along `axis` are neighbours in memory at an aligned address, at most
/// widestAccess bytes.
struct MemoryRun {
  int axis = -1; ///< the axis of stride 1; -1: none is known
  int64_t elems = 1;
  int64_t whole = 1; ///< so many of them are in or out of the bounds as one; less than elems: vectors may be cut
};
MemoryRun memoryRun(tileir::IndexFacts &facts, const GlobalAccess &access);

/// The vectors of a tile: registers that differ only in some bits of their number are moved at once.
class VectorPlan {
public:
  /// Up to `elems` neighbours along `axis`, as far as the layout has them in a thread. `axis` -1: none.
  /// Less than all of a vector may exist unless `whole` elements do as one.
  VectorPlan(const Layout &layout, int axis, int64_t elems, int64_t whole = std::numeric_limits<int64_t>::max());
  /// Elements of a vector, a power of two.
  int width() const { return 1 << bits.size(); }
  /// Bounds along `axis()` may cut vectors: those that exist in part are moved element by element.
  bool cut() const { return mayBeCut; }
  int axis() const { return runAxis; }
  bool startsVector(int reg) const { return (unsigned(reg) & mask) == 0; }
  /// The registers of the vector that starts at `first`, in the order of memory.
  llvm::SmallVector<int> vector(int first) const;

private:
  llvm::SmallVector<int> bits; ///< lowest element number first
  unsigned mask = 0;
  int runAxis = -1;
  bool mayBeCut = false;
};
VectorPlan planGlobal(tileir::IndexFacts &facts, const GlobalAccess &access, const Layout &layout);
VectorPlan planShared(BufferType buffer, const Layout &layout);

/// All elements of the tile along the axis are known to be equal.
bool equalAlong(mlir::Value tile, int64_t axis);

Swizzle swizzleOf(BufferType buffer);

/// How `ldmatrix` serves a layout, and `stmatrix` if it has no copies. The instruction moves 8 x 8 matrices
/// of 16-bit pieces: eight lanes give the addresses of rows of 16 bytes, then every lane has the two pieces 2
/// * (lane % 4) and the next of row lane / 4; transposed, the two rows 2 * (lane % 4) and the next in column
/// lane / 4. Up to four matrices at once, rows of matrix i from lanes 8 i to 8 i + 7.
struct MatrixLoads {
  bool transposed = false;
  llvm::SmallVector<int> pieceBits;  ///< register bits inside one 32-bit result, lowest first
  llvm::SmallVector<int> matrixBits; ///< register bits that number the matrices of one instruction
  llvm::SmallVector<int> otherBits;  ///< the rest: instructions
  Layout rows;                       ///< which row's start each lane names, registers numbered by otherBits
};
/// None where vectors of planShared are as good, or the layout does not fit.
std::optional<MatrixLoads> planMatrixLoads(BufferType buffer, const Layout &layout);

} // namespace sectile::tgpu
