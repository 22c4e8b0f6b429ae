// SPDX-License-Identifier: Apache-2.0
/// \file Strips of sums that threads store: rows that the TMA unit cannot write. Neighbouring lanes have neighbouring elements of
/// a row, so that a sector of memory is written by few instructions, wherever rows start.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {

llvm::Value *EmitContext::axisLimit(llvm::StringRef text, const View &x, std::size_t axis) {
  llvm::Value *limit = launchValue(text);
  if (!limit)
    return nullptr;
  Builder::InsertPointGuard guard(b);
  b.SetInsertPoint(setupEnd);
  limit = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, x.dims[axis]);
  limit = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, i64(0));
  return b.CreateTrunc(limit, b.getInt32Ty());
}

mlir::LogicalResult EmitContext::storeStrip(tgpu::BulkStoreOp op, llvm::Value *strip, llvm::Value *firstRow, llvm::Value *firstColumn,
                                            llvm::function_ref<llvm::Value *(llvm::Value *, llvm::Value *)> placeOf) {
  const View x = view(op.getX());
  const std::size_t rank = x.dims.size();
  const auto columns = int(op.getMap().getBox()[0]), rows = 16;
  const std::int64_t bytes = std::int64_t(byteSize(dtype(op.getX().getType())));
  const llvm::SmallVector<std::int64_t> rowAxes = op.rowAxes();
  llvm::SmallVector<llvm::Value *> limits, offsets;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    llvm::Value *limit = axisLimit(llvm::cast<mlir::StringAttr>(op.getMap().getLimits()[axis]).getValue(), x, axis);
    if (!limit)
      return bug(op, "a limit is no expression");
    limits.push_back(limit);
    offsets.push_back(b.CreateTrunc(scalar(op.getOffsets()[axis]), b.getInt32Ty()));
  }
  llvm::Type *word = i(unsigned(8 * bytes));
  const int lanesPerRow = std::min(columns, warpSize), rowsAtOnce = warpSize / lanesPerRow;
  llvm::Value *laneRow = b.CreateUDiv(lane, i32(lanesPerRow)), *laneColumn = b.CreateURem(lane, i32(lanesPerRow));
  for (int at = 0; at < rows; at += rowsAtOnce) {
    llvm::Value *inStrip = b.CreateAdd(laneRow, i32(at));
    // Where the row lies, and whether it exists.
    llvm::Value *rest = b.CreateAdd(firstRow, inStrip), *start = i64(0), *exists = b.getTrue();
    for (std::size_t axis = rank - 1; axis-- > 0;) {
      llvm::Value *here = rest;
      if (rowAxes[axis] == 1) {
        here = i32(0);
      } else if (llvm::product_of(llvm::ArrayRef(rowAxes).take_front(axis)) != 1) {
        here = b.CreateURem(rest, i32(rowAxes[axis]));
        rest = b.CreateUDiv(rest, i32(rowAxes[axis]));
      }
      llvm::Value *place = b.CreateAdd(offsets[axis], here);
      exists = b.CreateAnd(exists, b.CreateICmpULT(place, limits[axis]));
      start = b.CreateAdd(start, b.CreateMul(b.CreateSExt(place, b.getInt64Ty()), x.strides[axis]));
    }
    for (int column = 0; column < columns; column += lanesPerRow) {
      llvm::Value *inRow = b.CreateAdd(laneColumn, i32(column));
      llvm::Value *byte = b.CreateMul(inRow, i32(bytes));
      llvm::Value *from = b.CreateAdd(placeOf(inStrip, b.CreateLShr(byte, i32(4))), b.CreateAnd(byte, i32(15)));
      llvm::Value *element = b.CreateAlignedLoad(word, b.CreateGEP(b.getInt8Ty(), strip, from), llvm::Align(std::uint64_t(bytes)));
      llvm::Value *place = b.CreateAdd(b.CreateAdd(offsets[rank - 1], firstColumn), inRow);
      llvm::Value *to = b.CreateGEP(word, x.pointer, b.CreateAdd(start, b.CreateSExt(place, b.getInt64Ty())));
      storeGlobal(element, to, b.CreateAnd(exists, b.CreateICmpULT(place, limits[rank - 1])));
    }
  }
  return mlir::success();
}

} // namespace sectile::codegen
