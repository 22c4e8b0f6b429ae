// SPDX-License-Identifier: Apache-2.0
/// \file Which bytes of shared memory an op touches.
#pragma once

#include "ir/TgpuDialect.h"

namespace sectile::passes {

/// Behind views, the allocation of a buffer.
inline tgpu::BufferAllocOp allocOf(mlir::Value buffer) {
  while (auto view = buffer.getDefiningOp<tgpu::BufferViewOp>())
    buffer = view.getBuffer();
  return buffer.getDefiningOp<tgpu::BufferAllocOp>();
}

/// Calls `f(buffer, writes)` for each allocated buffer that `op` reads or writes. Slots of pipes have barriers of their
/// own.
template <class F> void forEachBuffer(mlir::Operation *op, F &&f) {
  if (auto copy = llvm::dyn_cast<tgpu::CopyOp>(op))
    f(copy.getBuffer(), true);
  else if (auto copyOut = llvm::dyn_cast<tgpu::CopyOutOp>(op))
    allocOf(copyOut.getBuffer()) ? f(copyOut.getBuffer(), false) : void();
  else if (auto copy = llvm::dyn_cast<tgpu::PeerCopyOp>(op))
    f(copy.getBuffer(), true);
  else if (auto wait = llvm::dyn_cast<tgpu::PeerWaitOp>(op))
    f(wait.getBuffer(), false);
  else if (auto mma = llvm::dyn_cast<tgpu::MmaFmaOp>(op)) {
    f(mma.getA(), false);
    f(mma.getB(), false);
  } else if (auto mma = llvm::dyn_cast<tgpu::WgmmaOp>(op)) {
    for (mlir::Value v : {mma.getA(), mlir::Value(mma.getB())})
      if (llvm::isa<tgpu::BufferType>(v.getType()) && allocOf(v))
        f(v, false);
  } else if (auto store = llvm::dyn_cast<tgpu::BulkStoreOp>(op)) {
    f(store.getStaging(), true);
  }
}

/// Where an op has read its buffers: itself; a product, at the wait behind which it is not under way.
inline mlir::Operation *endOfReads(mlir::Operation *op) {
  if (!llvm::isa<tgpu::WgmmaOp>(op))
    return op;
  int64_t behind = 0;
  for (mlir::Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    behind += llvm::isa<tgpu::WgmmaOp>(next);
    if (auto wait = llvm::dyn_cast<tgpu::WgmmaWaitOp>(next); wait && int64_t(wait.getPending()) <= behind)
      return next;
  }
  return &op->getBlock()->back();
}

} // namespace sectile::passes
