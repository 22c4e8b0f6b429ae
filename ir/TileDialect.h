// SPDX-License-Identifier: Apache-2.0
/// \file The `tile` dialect: types, enums, ops. See TileOps.td for every op's meaning.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <sectile/DType.h>

#include "ir/TileDialect.h.inc"
#include "ir/TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "ir/TileOps.h.inc"

namespace sectile::tileir {

/// Most axes of a tile and of a tensor view.
inline constexpr int64_t maxTileRank = 5;

/// Names of function and argument attributes.
inline constexpr llvm::StringLiteral kernelAttr = "tile.kernel";         ///< unit, on the function
inline constexpr llvm::StringLiteral readOnlyAttr = "tile.readonly";     ///< unit, on a tensor argument
inline constexpr llvm::StringLiteral alignAttr = "tile.align";           ///< i64 bytes, on a tensor argument
inline constexpr llvm::StringLiteral strideDivAttr = "tile.stride_div";  ///< array<i64>, elements per axis
inline constexpr llvm::StringLiteral dimDivAttr = "tile.dim_div";        ///< array<i64>, elements per axis
inline constexpr llvm::StringLiteral strideRemAttr = "tile.stride_rem";  ///< array<i64>, stride modulo a 16-byte vector
inline constexpr llvm::StringLiteral dimMaxAttr = "tile.dim_max";        ///< array<i64>, most elements per axis; 0: unknown
inline constexpr llvm::StringLiteral smallAttr = "tile.small";           ///< unit: dims and byte offsets of elements are in [0, 2^31)
/// unit, on the function: no tensor that it writes shares memory with another argument
inline constexpr llvm::StringLiteral apartAttr = "tile.apart";
inline constexpr llvm::StringLiteral unitStrideAttr = "tile.unit_stride"; ///< i64 axis, on a tensor argument

/// The MLIR type of an element (u8 -> ui8, i8 -> i8, boolean -> i1, index -> index).
mlir::Type elementType(mlir::MLIRContext *context, DType dtype);
/// The DType of an element type; nullopt for a type the language does not have.
std::optional<DType> dtypeOfType(mlir::Type elementType);
/// True for a ranked tensor of static shape, rank 1 to maxTileRank, lengths >= 1, and an element type of the language.
bool isTile(mlir::Type t);
/// Element type of a tile, or the type itself for a scalar.
inline mlir::Type elementOf(mlir::Type t) {
  if (auto s = llvm::dyn_cast<mlir::RankedTensorType>(t))
    return s.getElementType();
  return t;
}
/// Shape of a tile, empty for a scalar.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Type t) {
  if (auto s = llvm::dyn_cast<mlir::RankedTensorType>(t))
    return s.getShape();
  return {};
}
/// `like` with another element type (keeps shape and encoding; a scalar gives the element type).
mlir::Type withElement(mlir::Type like, mlir::Type element);
/// The user's spelling of a type: "bf16 [128, 64]", "f32".
std::string describe(mlir::Type t);

} // namespace sectile::tileir
