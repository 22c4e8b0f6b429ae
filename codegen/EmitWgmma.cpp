// SPDX-License-Identifier: Apache-2.0
/// \file Asynchronous products of warpgroups, and stores of their sums by the TMA unit (PTX ISA, wgmma.mma_async and
/// cp.async.bulk.tensor).
///
/// Accumulators are scalars, tied inputs and outputs of one inline assembly per instruction, so that they stay in one set
/// of registers; the wait ties them too, so that nothing that reads them can move above it.
#include "codegen/EmitContext.h"
#include "ir/StripStores.h"
#include "ir/WaitGate.h"
#include "ir/base/MmaTable.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {
namespace {

/// Warpgroups along M and N, read off the layout of the sums.
struct GroupGrid {
  int m = 1, n = 1;
};
GroupGrid groupsOf(const Layout &sums) {
  GroupGrid g;
  for (size_t bit = 2; bit < sums.warp().size(); ++bit)
    (sums.warp()[bit][0] ? g.m : g.n) *= 2;
  return g;
}

/// Shared-memory matrix descriptor of an operand (PTX ISA, matrix descriptor format), without the part that moves.
struct Descriptor {
  llvm::Value *low = nullptr; ///< i32
  std::uint32_t high = 0;
};

} // namespace

/// Registers of one asm operand list: "=f,=f,..", "0,1,..".
static std::string tied(char type, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ",=" : "=") + std::string(1, type);
  return text;
}
static std::string ties(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += "," + std::to_string(i);
  return text;
}

mlir::LogicalResult EmitContext::emitWgmma(tgpu::WgmmaOp op) {
  const MmaRow *row = findMma(op.getAtom().getName().str());
  auto sums = tgpu::layoutOf(op.getAcc().getType());
  if (!row || row->kind != MmaKind::Wgmma || !sums)
    return bug(op, "no row of the kind wgmma, or the sums have no layout");
  const GroupGrid grid = groupsOf(*sums);
  llvm::Value *group = b.CreateLShr(uniformWarp(), i32(2));
  llvm::Value *groupM = b.CreateAnd(group, i32(grid.m - 1)),
              *groupN = b.CreateLShr(group, i32(std::countr_zero(unsigned(grid.m))));

  // Where operand bytes lie: `mn` elements along M or N, `k` along K.
  auto span = [&](mlir::Value v) {
    auto type = llvm::cast<tgpu::BufferType>(v.getType());
    return type.getShape()[2] * std::int64_t(byteSize(dtype(type)));
  };
  auto place = [&](mlir::Value v, bool isMn, std::int64_t mn, std::int64_t k) {
    auto type = llvm::cast<tgpu::BufferType>(v.getType());
    const std::int64_t columns = type.getShape()[2], bytes = std::int64_t(byteSize(dtype(type))), w = span(v);
    const std::int64_t along = isMn ? mn : k, across = isMn ? k : mn;
    return along / columns * type.getShape()[1] * w + across * w + along % columns * bytes;
  };
  auto descriptor = [&](mlir::Value v, bool isMn, llvm::Value *groupNumber, std::int64_t perGroup) {
    auto type = llvm::cast<tgpu::BufferType>(v.getType());
    const std::int64_t w = span(v);
    // What one warpgroup steps over is whole rows, or whole panels, or a part of one panel.
    llvm::Value *start = b.CreateAdd(sharedAddress(scalar(v)),
                                     b.CreateMul(groupNumber, i32(place(v, isMn, perGroup, 0))));
    if (hasPairs()) // in a cluster an address has the block's rank in front
      start = b.CreateAnd(start, i32((1 << 18) - 1));
    const std::int64_t leading = isMn ? type.getShape()[1] * w : 16;
    Descriptor d;
    d.low = b.CreateOr(b.CreateLShr(start, i32(4)), i32(leading / 16 << 16));
    d.high = std::uint32_t(8 * w / 16) | std::uint32_t(w == 128 ? 1 : w == 64 ? 2 : 3) << 30;
    return d;
  };
  auto at = [&](const Descriptor &d, std::int64_t bytes) {
    llvm::Value *low = b.CreateZExt(b.CreateAdd(d.low, i32(bytes / 16)), b.getInt64Ty());
    return b.CreateOr(low, i64(std::int64_t(std::uint64_t(d.high) << 32)));
  };

  const bool aInRegisters = !llvm::isa<tgpu::BufferType>(op.getA().getType());
  Descriptor aStart, bStart = descriptor(op.getB(), op.getBMn(), groupN, row->n);
  std::optional<Layout> aLayout;
  if (aInRegisters) {
    aLayout = tgpu::layoutOf(op.getA().getType());
    if (!aLayout)
      return bug(op, "a has no layout");
  } else {
    aStart = descriptor(op.getA(), op.getAMn(), groupM, row->m);
  }
  const std::int64_t kLength = op.getBMn() ? op.getB().getType().getShape()[1]
                                           : op.getB().getType().getShape()[0] * op.getB().getType().getShape()[2];

  Regs d = regs(op.getAcc());
  const Layout &fragment = row->c.layout;
  const size_t perAtom = size_t(fragment.numRegs());
  // Registers by coordinate: those of one atom lie apart where its width has an odd factor.
  std::map<std::pair<std::int32_t, std::int32_t>, int> registerAt;
  for (int r = 0; r < sums->numRegs(); ++r) {
    Coords c = sums->regCoords(r);
    registerAt[{c[0], c[1]}] = r;
  }
  auto sumOf = [&](int i, int j, size_t e) -> llvm::Value *& {
    Coords c = fragment.regCoords(int(e));
    return d[size_t(registerAt.at({i * row->m * grid.m + c[0], j * row->n * grid.n + c[1]}))];
  };
  const bool isInteger = row->c.dtype == DType::i32;
  const bool has16Bits = row->mnMajor;
  const char type = isInteger ? 'r' : 'f';
  // `starts`: the sums have no value yet, and the first instruction gives them one.
  auto instruction = [&](bool starts) {
    std::string text = std::string("{ .reg .pred p; setp.ne.b32 p, ") + (starts ? "0" : "1") + ", 0; " + row->mnemonic + " {";
    for (size_t i = 0; i < perAtom; ++i)
      text += (i ? ", $" : "$") + std::to_string(i);
    size_t next = starts ? perAtom : 2 * perAtom;
    text += "}, ";
    std::string constraints = tied(type, perAtom) + (starts ? "" : ties(perAtom));
    if (aInRegisters) {
      text += "{";
      for (int i = 0; i < 4; ++i)
        text += (i ? ", $" : "$") + std::to_string(next++);
      text += "}, $" + std::to_string(next++);
      constraints += ",r,r,r,r,l";
    } else {
      text += "$" + std::to_string(next) + ", $" + std::to_string(next + 1);
      constraints += ",l,l";
    }
    text += ", p";
    if (!isInteger)
      text += ", 1, 1";
    if (has16Bits && !aInRegisters)
      text += op.getAMn() ? ", 1" : ", 0";
    if (has16Bits)
      text += op.getBMn() ? ", 1" : ", 0";
    text += "; }";
    return std::pair(text, constraints);
  };
  const bool startsAtZero = llvm::all_of(d, [](llvm::Value *v) {
    auto *constant = llvm::dyn_cast<llvm::Constant>(v);
    return constant && constant->isNullValue();
  });
  llvm::Type *element = isInteger ? b.getInt32Ty() : b.getFloatTy();
  llvm::Type *result = llvm::StructType::get(ctx, llvm::SmallVector<llvm::Type *>(perAtom, element));

  // A in registers: packed before the fence, so that nothing writes registers behind it.
  std::map<std::pair<int, int>, Regs> packed;
  const int atomsM = numAtoms(*sums, fragment, 0), atomsN = numAtoms(*sums, fragment, 1);
  const int stepsK = int(kLength / row->k);
  if (aInRegisters) {
    Regs source = regs(op.getA());
    for (int i = 0; i < atomsM; ++i)
      for (int k = 0; k < stepsK; ++k) {
        const int first = atomReg(*aLayout, row->a.layout, i, k);
        Regs &p = packed[{i, k}];
        for (int r = 0; r < row->a.regs(); ++r) {
          Regs elements;
          for (int e = 0; e < row->a.elemsPerReg; ++e)
            elements.push_back(source[size_t(first + r * row->a.elemsPerReg + e)]);
          if (row->policyOnly)
            for (llvm::Value *&v : elements)
              v = roundToTf32(v);
          p.push_back(row->a.elemsPerReg == 1 ? b.CreateBitCast(elements[0], b.getInt32Ty())
                                              : b.CreateBitCast(packVector(row->a.dtype, elements), b.getInt32Ty()));
        }
      }
  }
  // Sums that other instructions have written are complete before the tensor cores take them over.
  uniformAssembly(b.getVoidTy(), "wgmma.fence.sync.aligned;", "~{memory}", {});
  for (int k = 0; k < stepsK; ++k)
    for (int i = 0; i < atomsM; ++i)
      for (int j = 0; j < atomsN; ++j) {
        llvm::SmallVector<llvm::Value *> operands;
        const bool starts = startsAtZero && k == 0;
        for (size_t r = 0; r < perAtom && !starts; ++r)
          operands.push_back(sumOf(i, j, r));
        if (aInRegisters)
          operands.append(packed[{i, k}]);
        else
          operands.push_back(at(aStart, place(op.getA(), op.getAMn(), std::int64_t(i) * row->m * grid.m,
                                              std::int64_t(k) * row->k)));
        operands.push_back(at(bStart, place(op.getB(), op.getBMn(), std::int64_t(j) * row->n * grid.n,
                                            std::int64_t(k) * row->k)));
        auto [text, constraints] = instruction(starts);
        llvm::Value *made = uniformAssembly(result, text, constraints, operands);
        for (size_t r = 0; r < perAtom; ++r)
          sumOf(i, j, r) = b.CreateExtractValue(made, unsigned(r));
      }
  uniformAssembly(b.getVoidTy(), "wgmma.commit_group.sync.aligned;", "~{memory}", {});
  set(op.getResult(), std::move(d));
  return mlir::success();
}

void EmitContext::waitForGroups(std::int64_t pending, llvm::ArrayRef<Regs *> values) {
  const std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";";
  llvm::SmallVector<llvm::Value *> operands;
  std::string outputs;
  llvm::SmallVector<llvm::Type *> types;
  for (Regs *v : values)
    for (llvm::Value *r : *v) {
      operands.push_back(r);
      types.push_back(r->getType());
      outputs += std::string(outputs.empty() ? "=" : ",=") + (r->getType()->isFloatTy() ? "f" : "r");
    }
  if (operands.empty()) {
    uniformAssembly(b.getVoidTy(), text, "~{memory}", {});
    return;
  }
  llvm::Value *made = uniformAssembly(llvm::StructType::get(ctx, types), text,
                                      outputs + ties(operands.size()) + ",~{memory}", operands);
  unsigned next = 0;
  for (Regs *v : values)
    for (llvm::Value *&r : *v)
      r = b.CreateExtractValue(made, next++);
}

mlir::LogicalResult EmitContext::emitWgmmaWait(tgpu::WgmmaWaitOp op) {
  // Behind a loop whose products it waits for, the loop has emitted it.
  mlir::Operation *before = op->getPrevNode();
  if (before && llvm::isa<mlir::scf::ForOp>(before) && !op.getValues().empty() &&
      llvm::any_of(op.getValues(), [&](mlir::Value v) { return v.getDefiningOp() == before; }))
    return mlir::success();
  llvm::SmallVector<Regs> ready;
  llvm::SmallVector<Regs *> values;
  for (mlir::Value v : op.getValues())
    ready.push_back(regs(v));
  // Elements of 16 bits go through in pairs, and come out in registers that nothing under way reads: or-ed with a 0 that nobody
  // can see before the kernel runs (launches are flat), which keeps ptxas from putting operands of the next product where
  // those of one under way are (C7513 otherwise).
  auto hiddenZero = [&] {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(setupEnd);
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z, {});
  };
  auto isNarrow = [](const Regs &r) { return !r.empty() && r.size() % 2 == 0 && r[0]->getType()->getPrimitiveSizeInBits() == 16; };
  llvm::SmallVector<Regs> words(ready.size());
  Regs zero;
  for (auto [r, w] : llvm::zip_equal(ready, words)) {
    if (!isNarrow(r)) {
      values.push_back(&r);
      continue;
    }
    for (size_t k = 0; k < r.size(); k += 2)
      w.push_back(b.CreateBitCast(pair(r[k], r[k + 1]), b.getInt32Ty()));
    values.push_back(&w);
    if (zero.empty())
      zero.push_back(hiddenZero());
  }
  if (!zero.empty())
    values.push_back(&zero);
  // ptxas knows of no value that a wait needs, and puts it above all else; above an arrival at a barrier it does not. This one
  // never happens: it is there if some bit of the values is set in 0.
  if (auto gate = op->getAttrOfType<mlir::DenseI64ArrayAttr>(tgpu::gateAttr)) {
    const Regs &told = ready[size_t(gate[0])];
    llvm::Value *bits = i32(0);
    for (llvm::Value *r : llvm::ArrayRef(told).take_front(size_t(gate[1])))
      bits = b.CreateOr(bits, b.CreateBitCast(r, b.getInt32Ty()));
    uniformAssembly(b.getVoidTy(), "{ .reg .pred P; setp.ne.b32 P, $0, 0; @P mbarrier.arrive.shared::cta.b64 _, [$1]; }", "r,r,~{memory}",
                    {b.CreateAnd(bits, hiddenZero()), sharedAddress(sharedStart())});
  }
  waitForGroups(std::int64_t(op.getPending()), values);
  for (auto [result, r, w] : llvm::zip_equal(op.getResults(), ready, words)) {
    if (w.empty()) {
      set(result, r);
      continue;
    }
    Regs all;
    auto *two = llvm::FixedVectorType::get(r[0]->getType(), 2);
    for (llvm::Value *word : w) {
      llvm::Value *fresh = b.CreateBitCast(b.CreateOr(word, zero[0]), two);
      for (std::uint64_t k : {0, 1})
        all.push_back(b.CreateExtractElement(fresh, k));
    }
    set(result, std::move(all));
  }
  return mlir::success();
}

/// What is written but not read again leaves the L2 cache first, so that operands stay there; unless it is small enough that
/// the next kernel may find it. A cache policy of createpolicy (PTX ISA).
llvm::Value *EmitContext::storePolicy(const View &x, std::int64_t elementBytes) {
  llvm::Value *size = i64(elementBytes);
  for (llvm::Value *dim : x.dims)
    size = b.CreateMul(size, dim);
  auto policy = [&](const char *priority) {
    auto *type = llvm::FunctionType::get(b.getInt64Ty(), {}, false);
    return b.CreateCall(llvm::InlineAsm::get(type, std::string("createpolicy.fractional.L2::") + priority + ".b64 $0;", "=l", /*hasSideEffects=*/true), {}); // where it is needed, not in a register throughout
  };
  return b.CreateSelect(b.CreateICmpSGT(size, i64(target.l2Bytes / 2)), policy("evict_first"), policy("evict_normal"));
}

/// Strips of 16 rows by one span of columns, per warp: registers to shared memory as the map swizzles it, then one copy
/// by one thread, or stores by all. As many strips as there are slots share a fence.
mlir::LogicalResult EmitContext::emitBulkStore(tgpu::BulkStoreOp op) {
  auto layout = tgpu::layoutOf(op.getValue().getType());
  llvm::Value *map = mapPointer(op.getX(), op.getMap());
  const bool byThreads = op->hasAttr(tgpu::byThreadsAttr);
  if (!layout || (!map && !byThreads))
    return bug(op, "the tile has no layout, or the tensor is no argument");
  auto staging = llvm::cast<tgpu::BufferType>(op.getStaging().getType());
  const DType t = dtype(staging);
  const std::int64_t bytes = std::int64_t(byteSize(t)), columns = staging.getShape()[3], slots = staging.getShape()[1];
  const std::int64_t span = columns * bytes, stripBytes = 16 * span;
  const GroupGrid grid = groupsOf(*layout);
  const int perRow = int(layout->dim(1)) / grid.n; // columns of a warp, over all its atoms
  llvm::Value *number = uniformWarp();
  llvm::Value *group = b.CreateLShr(number, i32(2)), *inGroup = b.CreateAnd(number, i32(3));
  llvm::Value *groupM = b.CreateAnd(group, i32(grid.m - 1)),
              *groupN = b.CreateLShr(group, i32(std::countr_zero(unsigned(grid.m))));

  // Registers by coordinate: the same offsets hold in every thread.
  std::map<std::pair<int, int>, int> at;
  std::set<int> rowStarts;
  for (int r = 0; r < layout->numRegs(); ++r) {
    Coords c = layout->regCoords(r);
    at[{c[0], c[1]}] = r;
    if (c[0] % 64 == 0)
      rowStarts.insert(c[0]);
  }
  std::vector<int> columnStarts; // of strips, in the first warpgroup along N
  for (auto &[c, r] : at)
    if (c.first == 0 && c.second % columns == 0)
      columnStarts.push_back(c.second);
  if (std::int64_t(columnStarts.size()) * columns != perRow)
    return bug(op, "strips do not fit the columns of a warp");
  struct Strip {
    int row, column;
  };
  std::vector<Strip> strips;
  for (int row : rowStarts)
    for (int column : columnStarts)
      strips.push_back({row, column});
  // What a step of the warpgroup along N is: the columns of one atom.
  std::int64_t stepN = 0;
  for (size_t bit = 2; bit < layout->warp().size(); ++bit)
    if (layout->warp()[bit][1] && !stepN)
      stepN = layout->warp()[bit][1];

  llvm::Value *start = b.CreateGEP(b.getInt8Ty(), scalar(op.getStaging()), b.CreateMul(number, i32(slots * stripBytes)));
  auto swizzled = [&](llvm::Value *row, llvm::Value *chunk) { // byte in a strip
    const int rowsPerLine = int(128 / span);
    llvm::Value *line = b.CreateLShr(row, i32(std::countr_zero(unsigned(rowsPerLine))));
    llvm::Value *mask = b.CreateAnd(line, i32(span / 16 - 1));
    return b.CreateAdd(b.CreateMul(row, i32(span)), b.CreateShl(b.CreateXor(chunk, mask), 4));
  };
  Regs value = regs(op.getValue());
  View x = view(op.getX());
  const size_t rank = x.dims.size();
  const llvm::SmallVector<int64_t> rowAxes = op.rowAxes();
  llvm::Value *warpRow = b.CreateAdd(b.CreateMul(groupM, i32(64)), b.CreateMul(inGroup, i32(16)));
  llvm::Value *warpColumn = b.CreateMul(groupN, i32(stepN));
  llvm::Value *isFirst = b.CreateICmpEQ(lane, i32(0));
  auto coordinate32 = [&](size_t axis) { return b.CreateTrunc(scalar(op.getOffsets()[axis]), b.getInt32Ty()); };
  std::string text = "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.tile.bulk_group.L2::cache_hint [$0, {";
  std::string constraints = "l";
  for (size_t i = 0; i < rank; ++i) {
    text += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += ",r";
  }
  text += "}], [$" + std::to_string(rank + 1) + "], $" + std::to_string(rank + 2) + ";";
  constraints += ",r,l,~{memory}";
  auto syncWarp = [&] { uniformAssembly(b.getVoidTy(), "bar.warp.sync 0xffffffff;", "~{memory}", {}); };

  for (size_t first = 0; first < strips.size(); first += size_t(slots)) {
    const size_t count = std::min(strips.size() - first, size_t(slots));
    if (!byThreads)
      assembly("cp.async.bulk.wait_group.read 0;", "~{memory}", {});
    syncWarp();
    for (size_t s = 0; s < count; ++s) {
      const Strip &strip = strips[first + s];
      llvm::Value *slot = b.CreateGEP(b.getInt8Ty(), start, i32(std::int64_t(s) * stripBytes));
      auto element = [&](int row, int column) { return value[size_t(at.at({strip.row + row, strip.column + column}))]; };
      if (bytes == 2) {
        // Four 8x8 matrices: lane l names row l % 8 of matrix l / 8, rows first.
        llvm::Value *row = b.CreateAnd(lane, i32(15)), *half = b.CreateLShr(lane, i32(4));
        for (int block = 0; block < columns; block += 16) {
          llvm::SmallVector<llvm::Value *> args{
              b.CreateGEP(b.getInt8Ty(), slot, swizzled(row, b.CreateAdd(half, i32(block / 8))))};
          for (int matrix = 0; matrix < 4; ++matrix) {
            const int r = 8 * (matrix & 1), c = block + 8 * (matrix >> 1);
            llvm::Value *pair = packVector(t, {element(r, c), element(r, c + 1)});
            args.push_back(b.CreateBitCast(pair, b.getInt32Ty()));
          }
          b.CreateIntrinsic(llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16, {args[0]->getType()}, args);
        }
      } else {
        llvm::Value *quad = b.CreateAnd(lane, i32(3));
        for (int r : {0, 8})
          for (int c = 0; c < columns; c += 8) {
            llvm::Value *row = b.CreateAdd(b.CreateLShr(lane, i32(2)), i32(r));
            llvm::Value *chunk = b.CreateAdd(b.CreateLShr(quad, i32(1)), i32(c / 4));
            llvm::Value *byte = b.CreateAdd(swizzled(row, chunk), b.CreateMul(b.CreateAnd(quad, i32(1)), i32(8)));
            b.CreateAlignedStore(packVector(t, {element(r, c), element(r, c + 1)}),
                                 b.CreateGEP(b.getInt8Ty(), slot, byte), llvm::Align(8));
          }
      }
    }
    if (byThreads) {
      syncWarp();
      for (size_t s = 0; s < count; ++s)
        if (mlir::failed(storeStrip(op, b.CreateGEP(b.getInt8Ty(), start, i32(std::int64_t(s) * stripBytes)),
                                    b.CreateAdd(warpRow, i32(strips[first + s].row)),
                                    b.CreateAdd(warpColumn, i32(strips[first + s].column)), swizzled)))
          return mlir::failure();
      continue;
    }
    assembly("fence.proxy.async.shared::cta;", "~{memory}", {});
    syncWarp();
    llvm::BasicBlock *send = newBlock("send"), *sent = newBlock("sent");
    b.CreateCondBr(isFirst, send, sent);
    b.SetInsertPoint(send);
    llvm::Value *policy = storePolicy(x, std::int64_t(bytes));
    for (size_t s = 0; s < count; ++s) {
      const Strip &strip = strips[first + s];
      llvm::SmallVector<llvm::Value *> operands{map};
      operands.push_back(b.CreateAdd(coordinate32(rank - 1), b.CreateAdd(warpColumn, i32(strip.column))));
      llvm::Value *row = b.CreateAdd(warpRow, i32(strip.row)); // the first of the strip, among the rows of the tile
      for (size_t axis = rank - 1; axis-- > 0;) {
        llvm::Value *here = row;
        if (rowAxes[axis] == 1)
          here = i32(0);
        else if (llvm::product_of(llvm::ArrayRef(rowAxes).take_front(axis)) != 1) {
          here = b.CreateURem(row, i32(rowAxes[axis]));
          row = b.CreateUDiv(row, i32(rowAxes[axis]));
        }
        operands.push_back(b.CreateAdd(coordinate32(axis), here));
      }
      operands.push_back(sharedAddress(b.CreateGEP(b.getInt8Ty(), start, i32(std::int64_t(s) * stripBytes))));
      operands.push_back(policy);
      assembly(text, constraints, operands);
    }
    assembly("cp.async.bulk.commit_group;", "~{memory}", {});
    b.CreateBr(sent);
    b.SetInsertPoint(sent);
  }
  return mlir::success();
}

} // namespace sectile::codegen
