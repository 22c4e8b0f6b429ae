// SPDX-License-Identifier: Apache-2.0
/// \file Shared memory: buffers at fixed offsets of the block's dynamic shared memory, copies in vectors,
/// barriers.
///
/// Byte address of an element = row * pitch + (column ^ swizzle(row)) * size, row = linear index of the
/// leading coordinates. Row and column are sums of a thread part and a register part without common bits
/// (where the layout allows), and the swizzle takes a bit field of the row, so it splits likewise: each
/// register costs at most one XOR of a constant into the thread's address, and none where the constant's bits
/// are not used by threads.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {
namespace {

bool isPowerOfTwo(std::int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

llvm::Value *swizzleOf(Builder &b, const tgpu::Swizzle &s, llvm::Value *row) {
  if (!s.chunk)
    return b.getInt32(0);
  llvm::Value *field = b.CreateLShr(row, std::uint64_t(std::countr_zero(std::uint64_t(s.shift))));
  field = b.CreateAnd(field, b.getInt32(std::uint32_t(s.span / s.chunk - 1)));
  return b.CreateMul(field, b.getInt32(std::uint32_t(s.chunk)));
}

} // namespace

/// Addresses of the elements of a tile in a buffer.
class SharedEmission {
public:
  SharedEmission(EmitContext &e, tgpu::BufferType type, llvm::Value *base, const Layout &layout)
      : plan(tgpu::planShared(type, layout)), e(e), b(e.b), g(e.geometry(layout)), type(type), base(base),
        swizzle(type) {
    llvm::ArrayRef<int64_t> shape = type.getShape();
    last = int(shape.size()) - 1;
    elementBytes = std::int64_t(byteSize(e.dtype(type)));
    splits = g.disjoint[size_t(last)];
    for (int d = 0; d < last; ++d)
      splits &= bool(g.disjoint[size_t(d)]) && (d == 0 || !swizzle.chunk || isPowerOfTwo(shape[size_t(d)]));
    if (splits) {
      llvm::Value *row = b.getInt32(0);
      std::uint64_t rowMask = 0;
      for (int d = 0; d < last; ++d) {
        row = b.CreateAdd(b.CreateMul(row, e.i32(shape[size_t(d)])), g.thread[size_t(d)]);
        rowMask = rowMask * std::uint64_t(shape[size_t(d)]) + g.threadMask[size_t(d)];
      }
      threadRow = b.CreateMul(row, e.i32(shape[size_t(last)]));
      threadColumn = b.CreateXor(g.thread[size_t(last)], swizzleOf(b, swizzle, row));
      columnMask = g.threadMask[size_t(last)];
      if (swizzle.chunk)
        for (std::int64_t bit = swizzle.shift; bit < swizzle.shift * (swizzle.span / swizzle.chunk); bit *= 2)
          if (rowMask & std::uint64_t(bit))
            columnMask |= std::uint32_t(swizzle.of(bit));
    }
  }
  const tgpu::VectorPlan plan;

  llvm::Value *pointer(int reg) {
    llvm::ArrayRef<int64_t> shape = type.getShape();
    if (!splits) {
      llvm::SmallVector<llvm::Value *, 5> coords;
      for (int d = 0; d <= last; ++d)
        coords.push_back(e.coordinate(g, reg, d));
      return e.bufferElement(type, base, coords);
    }
    const Coords &c = g.regs[size_t(reg)];
    std::int64_t row = 0;
    for (int d = 0; d < last; ++d)
      row = row * shape[size_t(d)] + c[d];
    // The register's part of the column: bits that threads use are XORed in, the others are a plain offset.
    std::uint32_t column = std::uint32_t(c[last]) ^ std::uint32_t(swizzle.of(row));
    std::uint32_t mixed = column & columnMask, plain = column & ~columnMask;
    llvm::Value *&start = starts[mixed];
    if (!start) {
      llvm::Value *index = b.CreateAdd(threadRow, b.CreateXor(threadColumn, e.i32(mixed)));
      start = b.CreateGEP(b.getInt8Ty(), base,
                          b.CreateZExt(b.CreateMul(index, e.i32(elementBytes)), b.getInt64Ty()));
    }
    return b.CreateGEP(b.getInt8Ty(), start, e.i64((row * shape[size_t(last)] + plain) * elementBytes));
  }

private:
  EmitContext &e;
  Builder &b;
  const Geometry &g;
  tgpu::BufferType type;
  llvm::Value *base;
  tgpu::Swizzle swizzle;
  int last;
  std::int64_t elementBytes;
  bool splits;
  llvm::Value *threadRow = nullptr, *threadColumn = nullptr; ///< in elements
  std::uint32_t columnMask = 0;
  std::map<std::uint32_t, llvm::Value *> starts;
};

llvm::Value *EmitContext::bufferElement(tgpu::BufferType type, llvm::Value *base,
                                        llvm::ArrayRef<llvm::Value *> coords) {
  llvm::ArrayRef<int64_t> shape = type.getShape();
  llvm::Value *row = i32(0);
  for (size_t d = 0; d + 1 < coords.size(); ++d)
    row = b.CreateAdd(b.CreateMul(row, i32(shape[d])), coords[d]);
  llvm::Value *column = b.CreateXor(coords.back(), swizzleOf(b, tgpu::Swizzle(type), row));
  llvm::Value *index = b.CreateAdd(b.CreateMul(row, i32(shape.back())), column);
  index = b.CreateMul(index, i32(std::int64_t(byteSize(dtype(type)))));
  return b.CreateGEP(b.getInt8Ty(), base, b.CreateZExt(index, b.getInt64Ty()));
}

llvm::Value *EmitContext::sharedStart() {
  if (!shared) {
    // The alignment is that of the whole window: the block's dynamic shared memory starts at it.
    shared = new llvm::GlobalVariable(mod, llvm::ArrayType::get(b.getInt8Ty(), 0), false,
                                      llvm::GlobalValue::ExternalLinkage, nullptr, "sectile_shared", nullptr,
                                      llvm::GlobalValue::NotThreadLocal, 3);
    shared->setAlignment(llvm::Align(128));
  }
  return shared;
}

mlir::LogicalResult EmitContext::emitBufferAlloc(tgpu::BufferAllocOp op) {
  if (!op.getOffset())
    return bug(op, "the buffer has no place in shared memory");
  if (*op.getOffset() % 16)
    return bug(op, "the buffer's offset is not a multiple of 16 bytes");
  set(op.getBuffer(), {b.CreateGEP(b.getInt8Ty(), sharedStart(), i64(std::int64_t(*op.getOffset())))});
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitCopy(tgpu::CopyOp op) {
  auto layout = tgpu::layoutOf(op.getValue().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  auto type = llvm::cast<tgpu::BufferType>(op.getBuffer().getType());
  DType t = dtype(type);
  Regs value = regs(op.getValue());
  SharedEmission access(*this, type, scalar(op.getBuffer()), *layout);
  llvm::Value *owns = ownsElements(*layout, /*perBlock=*/true);
  llvm::BasicBlock *done = nullptr;
  if (!llvm::isa<llvm::Constant>(owns)) {
    llvm::BasicBlock *write = newBlock("write");
    done = newBlock("written");
    b.CreateCondBr(owns, write, done);
    b.SetInsertPoint(write);
  }
  for (int r = 0; r < layout->numRegs(); ++r) {
    if (!access.plan.startsVector(r) || !ownsRegister(*layout, r))
      continue;
    Regs elements;
    for (int reg : access.plan.vector(r))
      elements.push_back(value[size_t(reg)]);
    llvm::Value *vector = packVector(t, elements);
    b.CreateAlignedStore(vector, access.pointer(r), llvm::Align(byteSize(t) * elements.size()));
  }
  if (done) {
    b.CreateBr(done);
    b.SetInsertPoint(done);
  }
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitCopyOut(tgpu::CopyOutOp op) {
  auto layout = tgpu::layoutOf(op.getResult().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  auto type = llvm::cast<tgpu::BufferType>(op.getBuffer().getType());
  DType t = dtype(type);
  SharedEmission access(*this, type, scalar(op.getBuffer()), *layout);
  Regs result(size_t(layout->numRegs()));
  std::optional<tgpu::MatrixLoads> matrices;
  if (target.has(Feature::ldmatrix))
    matrices = tgpu::planMatrixLoads(type, *layout);
  if (matrices) {
    static constexpr llvm::Intrinsic::ID loads[3][2] = {
        {llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_b16,
         llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16},
        {llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16,
         llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16},
        {llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
         llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16}};
    llvm::Intrinsic::ID id = loads[matrices->matrixBits.size()][matrices->transposed];
    SharedEmission rows(*this, type, scalar(op.getBuffer()), matrices->rows);
    auto spread = [](int number, llvm::ArrayRef<int> bits) {
      int r = 0;
      for (auto [k, bit] : llvm::enumerate(bits))
        r |= (number >> k & 1) << bit;
      return r;
    };
    int pieces = 1 << matrices->pieceBits.size(), others = int(matrices->otherBits.size());
    for (int q = 0; q < matrices->rows.numRegs(); ++q) {
      int first = spread(q, matrices->otherBits) | (q >> others)
                                                       << layout->reg().size(); // and its repetition
      llvm::Value *loaded = b.CreateIntrinsic(id, {shared->getType()}, {rows.pointer(q)});
      for (int matrix = 0; matrix < 1 << matrices->matrixBits.size(); ++matrix) {
        llvm::Value *word =
            loaded->getType()->isStructTy() ? b.CreateExtractValue(loaded, unsigned(matrix)) : loaded;
        Regs elements(size_t(pieces), nullptr);
        unpackVector(t, b.CreateBitCast(word, memoryVector(t, pieces)), elements);
        for (int piece = 0; piece < pieces; ++piece)
          result[size_t(first | spread(matrix, matrices->matrixBits) | spread(piece, matrices->pieceBits))] =
              elements[size_t(piece)];
      }
    }
    set(op.getResult(), std::move(result));
    return mlir::success();
  }
  for (int r = 0; r < layout->numRegs(); ++r) {
    if (!access.plan.startsVector(r))
      continue;
    llvm::SmallVector<int> group = access.plan.vector(r);
    llvm::Value *vector = b.CreateAlignedLoad(memoryVector(t, access.plan.width()), access.pointer(r),
                                              llvm::Align(byteSize(t) * group.size()));
    Regs elements(group.size());
    unpackVector(t, vector, elements);
    for (auto [reg, v] : llvm::zip_equal(group, elements))
      result[size_t(reg)] = v;
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

void EmitContext::emitBarrier(bool cluster) {
  if (!cluster) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {i32(0)});
    return;
  }
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned, {});
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
}

} // namespace sectile::codegen
