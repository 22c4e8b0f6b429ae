// SPDX-License-Identifier: Apache-2.0
/// \file What several passes share: short builders, layouts of types without parsing them twice, facts of
/// memory accesses, the split of a product over warps.
#pragma once

#include "ir/AccessPlan.h"
#include "ir/base/MmaTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile::passes {

using tileir::IndexFacts;

inline bool isTile(mlir::Value v) { return llvm::isa<mlir::RankedTensorType>(v.getType()); }

// --- builders
// ---------------------------------------------------------------------------------------------------

mlir::Value indexConstant(mlir::OpBuilder &b, mlir::Location loc, int64_t value);
/// A scalar, or a tile with this scalar in every lane. `scalar` has the element type of `type`.
mlir::Value constant(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type, mlir::TypedAttr scalar);
/// Folds where it can.
mlir::Value binary(mlir::OpBuilder &b, mlir::Location loc, tileir::BinaryFn fn, mlir::Value x, mlir::Value y);
mlir::Value compare(mlir::OpBuilder &b, mlir::Location loc, tileir::ComparePred pred, mlir::Value x,
                    mlir::Value y);
mlir::Value select(mlir::OpBuilder &b, mlir::Location loc, mlir::Value cond, mlir::Value x, mlir::Value y);
/// 0, 0.0 or false as an attribute.
mlir::TypedAttr zeroOf(mlir::Type element);
bool isZero(mlir::Attribute attr);

// --- layouts
// ----------------------------------------------------------------------------------------------------

/// Layouts by their attribute, parsed and printed once each. One per run of a pass.
class LayoutCache {
public:
  explicit LayoutCache(mlir::MLIRContext *context) : context(context) {}
  /// @pre the type is a tile with a layout
  const Layout &of(mlir::Type type);
  const Layout &of(mlir::Value v) { return of(v.getType()); }
  mlir::Attribute attribute(const Layout &layout);
  mlir::RankedTensorType with(mlir::Type type, const Layout &layout);

private:
  mlir::MLIRContext *context;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<Layout>> parsed;
  std::unordered_map<Layout, mlir::Attribute> printed;
};

llvm::SmallVector<int32_t> shape32(mlir::Type type);

/// How the axes of two shapes that differ only in axes of length 1 correspond: entry d is the axis of `to`
/// that is axis d of `from`, -1 for a dropped axis of length 1. None for any other pair of shapes.
std::optional<llvm::SmallVector<int>> unitReshapeMap(llvm::ArrayRef<int64_t> from,
                                                     llvm::ArrayRef<int64_t> to);
/// The layout of the same registers after a reshape, register numbers unchanged; none if there is none.
std::optional<Layout> reshapeLayout(const Layout &layout, llvm::ArrayRef<int64_t> from,
                                    llvm::ArrayRef<int64_t> to);
/// True if some pair of layouts makes this reshape keep every element in its register.
bool reshapeKeepsRegisters(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Whether two tensors may share memory, one of which is written. Notes on the function where only the promise of
/// tile.apart says that they do not.
bool mayShareMemory(mlir::func::FuncOp func, mlir::Value x, mlir::Value y);

/// On the function: why ChooseCluster chose its number of blocks, in words.
inline constexpr llvm::StringLiteral clusterReasonAttr = "tgpu.cluster_reason";
/// Blocks of the cluster that runs one program; 1 without launch geometry.
int blocksPerProgram(mlir::func::FuncOp func);
/// True if some thread of `dst` needs an element that `src` holds in other blocks only, when the warps of both
/// are those of `blocks` blocks, one block after the other.
bool crossesBlocks(const Layout &src, const Layout &dst, int blocks);

// --- control flow
// ---------------------------------------------------------------------------------------------------

/// Calls `same(a, b)` for values that a loop or branch passes on as one another: initial, carried, yielded and
/// resulting ones. Other ops: nothing.
void forPassedOn(mlir::Operation *op, llvm::function_ref<void(mlir::Value, mlir::Value)> same);

// --- memory accesses
// --------------------------------------------------------------------------------------------

/// How the elements of a global access lie in memory.
struct AccessFact {
  int axis = 0; ///< neighbours along this axis are neighbours in memory (if elems > 1), or the best guess
  int64_t elems =
      1; ///< aligned runs of so many coordinates are aligned in memory
};
AccessFact accessFact(IndexFacts &facts, const tgpu::GlobalAccess &access);

// --- products
// ---------------------------------------------------------------------------------------------------

/// On a tile.mma: the row that SelectMma chose, a #tgpu.atom.
inline constexpr llvm::StringLiteral atomAttr = "tgpu.atom";
/// What a product on warpgroups falls back to.
inline constexpr llvm::StringLiteral otherAtomAttr = "tgpu.other_atom";

/// Warps (of a wgmma row: warpgroups) along M and N of one product with atoms of `row`, of least operand traffic. None if the warps cannot
/// all have whole atoms.
std::optional<std::pair<int, int>> warpGrid(const MmaRow &row, int m, int n, int k, int warps);

} // namespace sectile::passes
