// SPDX-License-Identifier: Apache-2.0
/// \file Shared memory: buffers at fixed offsets of the block's dynamic shared memory, copies in vectors,
/// barriers.
///
/// Byte address of an element = (index ^ swizzle(row, column)) * size, row = linear index of the leading
/// coordinates, index = row * length + column. Row and column are sums of a thread part and a register part
/// without common bits (where the layout allows), and the swizzle is linear, so it splits likewise: each
/// register costs at most one XOR of a constant into the thread's address, and none where the constant's bits
/// are not used by threads.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {
namespace {

bool isPowerOfTwo(std::int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

/// The XOR of masks[i] over the bits i of v that are set. Mask bits at the same distance from their bit i are
/// done at once.
llvm::Value *masked(Builder &b, llvm::ArrayRef<std::int64_t> masks, llvm::Value *v) {
  std::map<int, std::uint32_t> byDistance;
  for (int i = 0; i < int(masks.size()); ++i)
    for (std::uint64_t rest = std::uint64_t(masks[size_t(i)]); rest; rest &= rest - 1)
      byDistance[std::countr_zero(rest) - i] |= 1u << i;
  llvm::Value *result = b.getInt32(0);
  for (auto [distance, bits] : byDistance) {
    llvm::Value *part = b.CreateAnd(v, b.getInt32(bits));
    part = distance < 0 ? b.CreateLShr(part, std::uint64_t(-distance))
                        : b.CreateShl(part, std::uint64_t(distance));
    result = b.CreateXor(result, part);
  }
  return result;
}
llvm::Value *emitSwizzle(Builder &b, const Swizzle &s, llvm::Value *row, llvm::Value *column) {
  llvm::Value *high = b.CreateLShr(column, std::uint64_t(std::countr_zero(std::uint64_t(s.line))));
  return b.CreateXor(masked(b, s.rows, row), masked(b, s.columns, high));
}

} // namespace

/// Addresses of the elements of a tile in a buffer.
class SharedEmission {
public:
  SharedEmission(EmitContext &e, tgpu::BufferType type, llvm::Value *base, const Layout &layout)
      : plan(tgpu::planShared(type, layout)), e(e), b(e.b), g(e.geometry(layout)), type(type), base(base),
        swizzle(tgpu::swizzleOf(type)) {
    llvm::ArrayRef<int64_t> shape = type.getShape();
    last = int(shape.size()) - 1;
    elementBytes = std::int64_t(byteSize(e.dtype(type)));
    splits = g.disjoint[size_t(last)];
    for (int d = 0; d < last; ++d)
      splits &= bool(g.disjoint[size_t(d)]) && (d == 0 || !swizzle.chunk || isPowerOfTwo(shape[size_t(d)]));
    if (!splits)
      return;
    llvm::Value *row = b.getInt32(0);
    std::uint64_t rowBits = 0;
    for (int d = 0; d < last; ++d) {
      row = b.CreateAdd(b.CreateMul(row, e.i32(shape[size_t(d)])), g.thread[size_t(d)]);
      rowBits = rowBits * std::uint64_t(shape[size_t(d)]) + g.threadMask[size_t(d)];
    }
    const std::int64_t length = shape[size_t(last)];
    llvm::Value *column = g.thread[size_t(last)];
    threadIndex = b.CreateAdd(b.CreateMul(row, e.i32(length)), column);
    if (!swizzle.chunk)
      return;
    threadIndex = b.CreateXor(threadIndex, emitSwizzle(b, swizzle, row, column));
    // Index bits that masks may change, and those of them that threads can have.
    maskable = std::uint32_t(Swizzle::maskEnd(llvm::product_of(shape.drop_back()), length, elementBytes) - 1);
    const std::uint64_t columnBits = g.threadMask[size_t(last)];
    threadBits = std::uint32_t(columnBits);
    if (isPowerOfTwo(length))
      threadBits |= std::uint32_t(rowBits * std::uint64_t(length));
    for (int bit = 0; bit < 31; ++bit) {
      if (rowBits >> bit & 1)
        threadBits |= std::uint32_t(swizzle.of(std::int64_t(1) << bit, 0));
      if (columnBits >> bit & 1)
        threadBits |= std::uint32_t(swizzle.of(0, std::int64_t(1) << bit));
    }
    threadBits &= maskable;
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
    // The register's part of the index: maskable bits that threads use are XORed in, the others are a plain
    // offset.
    const std::int64_t index = row * shape[size_t(last)] + c[last];
    const std::uint32_t low = (std::uint32_t(index) ^ std::uint32_t(swizzle.of(row, c[last]))) & maskable;
    const std::uint32_t mixed = low & threadBits;
    llvm::Value *&start = starts[mixed];
    if (!start) {
      llvm::Value *thread = b.CreateMul(b.CreateXor(threadIndex, e.i32(mixed)), e.i32(elementBytes));
      start = b.CreateGEP(b.getInt8Ty(), base, b.CreateZExt(thread, b.getInt64Ty()));
    }
    const std::int64_t plain = (index & ~std::int64_t(maskable)) + (low & ~threadBits);
    return b.CreateGEP(b.getInt8Ty(), start, e.i64(plain * elementBytes));
  }

private:
  EmitContext &e;
  Builder &b;
  const Geometry &g;
  tgpu::BufferType type;
  llvm::Value *base;
  Swizzle swizzle;
  int last;
  std::int64_t elementBytes;
  bool splits;
  llvm::Value *threadIndex = nullptr; ///< in elements, swizzled
  std::uint32_t maskable = 0, threadBits = 0;
  std::map<std::uint32_t, llvm::Value *> starts;
};

llvm::Value *EmitContext::bufferElement(tgpu::BufferType type, llvm::Value *base,
                                        llvm::ArrayRef<llvm::Value *> coords) {
  llvm::ArrayRef<int64_t> shape = type.getShape();
  llvm::Value *row = i32(0);
  for (size_t d = 0; d + 1 < coords.size(); ++d)
    row = b.CreateAdd(b.CreateMul(row, i32(shape[d])), coords[d]);
  llvm::Value *index = b.CreateAdd(b.CreateMul(row, i32(shape.back())), coords.back());
  if (const Swizzle swizzle = tgpu::swizzleOf(type); swizzle.chunk)
    index = b.CreateXor(index, emitSwizzle(b, swizzle, row, coords.back()));
  index = b.CreateMul(index, i32(std::int64_t(byteSize(dtype(type)))));
  return b.CreateGEP(b.getInt8Ty(), base, b.CreateZExt(index, b.getInt64Ty()));
}

llvm::Value *EmitContext::sharedStart() {
  if (!shared) {
    // The alignment is that of the whole window: the block's dynamic shared memory starts at it.
    shared = new llvm::GlobalVariable(mod, llvm::ArrayType::get(b.getInt8Ty(), 0), false,
                                      llvm::GlobalValue::ExternalLinkage, nullptr, "sectile_shared", nullptr,
                                      llvm::GlobalValue::NotThreadLocal, 3);
    bool isSwizzled = false; // by TMA and wgmma, which see addresses
    func.walk([&](mlir::Operation *op) { isSwizzled |= llvm::isa<tgpu::WgmmaOp, tgpu::PipeCreateOp>(op); });
    shared->setAlignment(llvm::Align(isSwizzled ? tgpu::slotAlignment : 128));
  }
  return groupShared ? groupShared : shared;
}

mlir::LogicalResult EmitContext::emitBufferAlloc(tgpu::BufferAllocOp op) {
  if (!op.getOffset())
    return bug(op, "the buffer has no place in shared memory");
  if (*op.getOffset() % 16)
    return bug(op, "the buffer's offset is not a multiple of 16 bytes");
  set(op.getBuffer(), {b.CreateGEP(b.getInt8Ty(), sharedStart(), i64(std::int64_t(*op.getOffset())))});
  return mlir::success();
}

namespace {
/// Registers whose elements are one 32-bit word of a matrix.
using Pieces = llvm::SmallVector<int, 4>;

/// Calls f(register of `rows`, words in order of matrices) for each instruction.
void forEachMatrices(const tgpu::MatrixLoads &m, int regBits,
                     llvm::function_ref<void(int, llvm::ArrayRef<Pieces>)> f) {
  auto spread = [](int number, llvm::ArrayRef<int> bits) {
    int r = 0;
    for (auto [k, bit] : llvm::enumerate(bits))
      r |= (number >> k & 1) << bit;
    return r;
  };
  const int others = int(m.otherBits.size());
  for (int q = 0; q < m.rows.numRegs(); ++q) {
    const int first = spread(q, m.otherBits) | (q >> others) << regBits; // and its repetition
    llvm::SmallVector<Pieces, 4> registers;
    for (int matrix = 0; matrix < 1 << m.matrixBits.size(); ++matrix) {
      Pieces &pieces = registers.emplace_back();
      for (int piece = 0; piece < 1 << m.pieceBits.size(); ++piece)
        pieces.push_back(first | spread(matrix, m.matrixBits) | spread(piece, m.pieceBits));
    }
    f(q, registers);
  }
}
} // namespace

mlir::LogicalResult EmitContext::emitCopy(tgpu::CopyOp op) {
  auto layout = tgpu::layoutOf(op.getValue().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  auto type = llvm::cast<tgpu::BufferType>(op.getBuffer().getType());
  DType t = dtype(type);
  Regs value = regs(op.getValue());
  if (target.has(Feature::stmatrix) && layout->isInjective())
    if (auto matrices = tgpu::planMatrixLoads(type, *layout)) {
      static constexpr llvm::Intrinsic::ID stores[3][2] = {
          {llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_b16,
           llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_trans_b16},
          {llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_b16,
           llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_trans_b16},
          {llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16,
           llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_trans_b16}};
      llvm::Intrinsic::ID id = stores[matrices->matrixBits.size()][matrices->transposed];
      SharedEmission rows(*this, type, scalar(op.getBuffer()), matrices->rows);
      forEachMatrices(*matrices, int(layout->reg().size()), [&](int q, llvm::ArrayRef<Pieces> registers) {
        llvm::SmallVector<llvm::Value *> args{rows.pointer(q)};
        for (const Pieces &pieces : registers) {
          Regs elements;
          for (int r : pieces)
            elements.push_back(value[size_t(r)]);
          args.push_back(b.CreateBitCast(packVector(t, elements), b.getInt32Ty()));
        }
        b.CreateIntrinsic(id, {shared->getType()}, args);
      });
      return mlir::success();
    }
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
    forEachMatrices(*matrices, int(layout->reg().size()), [&](int q, llvm::ArrayRef<Pieces> registers) {
      llvm::Value *loaded = b.CreateIntrinsic(id, {shared->getType()}, {rows.pointer(q)});
      for (auto [matrix, pieces] : llvm::enumerate(registers)) {
        llvm::Value *word =
            loaded->getType()->isStructTy() ? b.CreateExtractValue(loaded, unsigned(matrix)) : loaded;
        Regs elements(pieces.size(), nullptr);
        unpackVector(t, b.CreateBitCast(word, memoryVector(t, int(pieces.size()))), elements);
        for (auto [r, v] : llvm::zip_equal(pieces, elements))
          result[size_t(r)] = v;
      }
    });
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
    if (barrierThreads)
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count, {barrierNumber(), i32(barrierThreads)});
    else
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {i32(0)});
    return;
  }
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned, {});
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
}

} // namespace sectile::codegen
