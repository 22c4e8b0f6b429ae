// SPDX-License-Identifier: Apache-2.0
/// \file Several blocks per program: blockIdx.y is the part, gridDim.y the number of parts; or, where the blocks of a
/// persistent kernel share its last programs, what tgpu.combine_parts is told.
///
/// The workspace starts with one counter per program (LaunchSplit::counterBytes). Then part p of program q has
/// partBytes at place q * parts + p, in which each value lies as it does in the threads: vectors of its
/// registers, thread after thread, copies left out. Every part writes; the one that counts last reads all of
/// them back. Counters wrap to 0, so that a launch leaves them as it found them.
///
/// Order of the sums: the parts in turn; or, where the threads hold copies of the totals and there are enough
/// parts, each copy adds up a share of the parts in turn, and then those sums in turn. Large parts meet in groups, of about as
/// many parts as there are groups: the last of a group adds up the group and leaves the sum in the place of its first part, the
/// last group adds up the groups. It depends on the layout and on the number of parts alone.
#include "codegen/EmitContext.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {
namespace {

constexpr std::int64_t partAlign = 16;

/// Registers of parts that are loaded before the first of them is added up: more would hide more latency, and
/// cost the loop of the kernel its occupancy. And parts.
constexpr int registersAtOnce = 32, mostAtOnce = 8;
/// Of tiles with more registers than that: parts that are loaded at a time, of as many registers. Beside the tile itself they fit.
constexpr int partsOfLarge = 2;

/// Copies of a value share the parts when there are at least so many for each.
constexpr int leastShare = 4;

/// Parts of so many bytes are added up in groups: a multiprocessor reads far slower than all of them write.
constexpr std::int64_t leastGrouped = 2048;
/// Fewer than so many groups, of as many parts, are not worth a second meeting.
constexpr int leastGroups = 3;

/// Register numbers that travel together.
struct Chunk {
  llvm::SmallVector<int> regs;
  std::int64_t offset; ///< in the part, of the first thread's
};

} // namespace

/// One value as it lies in a part.
class PartsInMemory {
public:
  PartsInMemory(EmitContext &e, mlir::Type type, std::int64_t &offset)
      : e(e), b(e.b), type(type), element(e.dtype(type)), layout(tgpu::layoutOf(type)) {
    llvm::SmallVector<int> regs;
    if (layout) {
      // Bits that move nothing: copies. Register r holds what register owner(r) does.
      for (auto [bit, basis] : llvm::enumerate(layout->reg()))
        if (basis.isZero())
          copyRegs |= 1 << bit;
      auto mark = [](const std::vector<Coords> &bases, int first, std::uint32_t &copies) {
        for (auto [bit, basis] : llvm::enumerate(bases))
          if (basis.isZero())
            copies |= 1u << (first + int(bit));
      };
      mark(layout->lane(), 0, copyThreads);
      mark(layout->warp(), laneBits, copyThreads);
      threadBits = laneBits + int(layout->warp().size());
      for (int r = 0; r < layout->numRegs(); ++r)
        if (!(r & copyRegs))
          regs.push_back(r);
    } else {
      threadBits = laneBits + std::countr_zero(unsigned(e.warps));
      copyThreads = (1u << threadBits) - 1;
      regs.push_back(0);
    }
    slots = std::int64_t(1) << (threadBits - std::popcount(copyThreads));
    std::int64_t bytes = std::int64_t(byteSize(element));
    offset = (offset + partAlign - 1) / partAlign * partAlign;
    for (size_t first = 0; first < regs.size();) {
      size_t width = std::min<size_t>(std::bit_floor(regs.size() - first), size_t(partAlign / bytes));
      Chunk c{llvm::SmallVector<int>(regs.begin() + first, regs.begin() + first + width), offset};
      offset += slots * std::int64_t(width) * bytes;
      first += width;
      chunks.push_back(std::move(c));
    }
    // The thread's slot: its number without the bits that move nothing.
    slot = squeeze(e.thread, ~copyThreads);
    copy = squeeze(e.thread, copyThreads);
    writesHere = copyThreads ? b.CreateICmpEQ(copy, e.i32(0)) : b.getTrue();
  }

  int numCopies() const { return 1 << std::popcount(copyThreads); }
  /// Number of this thread among those that hold the same.
  llvm::Value *copyNumber() const { return copy; }
  llvm::Value *writes() const { return writesHere; }

  void store(llvm::Value *part, const Regs &value, llvm::Value *predicate) {
    for (const Chunk &c : chunks) {
      Regs elements;
      for (int r : c.regs)
        elements.push_back(value[size_t(r)]);
      e.storeGlobal(e.packVector(element, elements), place(part, c), predicate);
    }
  }

  /// Vectors, in runs of at most `most` registers.
  llvm::SmallVector<llvm::ArrayRef<Chunk>> runs(int most) const {
    llvm::SmallVector<llvm::ArrayRef<Chunk>> all;
    int count = most;
    for (const Chunk &c : chunks) {
      const int size = int(c.regs.size());
      if (count + size > most) {
        all.push_back(llvm::ArrayRef(&c, 1));
        count = size;
      } else {
        all.back() = llvm::ArrayRef(all.back().data(), all.back().size() + 1);
        count += size;
      }
    }
    return all;
  }

  /// The values of some vectors of a part, one per register without copies.
  Regs load(llvm::Value *part, llvm::ArrayRef<Chunk> some) {
    Regs result;
    for (const Chunk &c : some) {
      Regs elements(c.regs.size(), nullptr);
      e.unpackVector(element, loadFresh(int(c.regs.size()), place(part, c)), elements);
      result.append(elements);
    }
    return result;
  }

  Regs combine(tileir::BinaryFn fn, const Regs &x, const Regs &y) {
    Regs result;
    for (auto [p, q] : llvm::zip_equal(x, y))
      result.push_back(e.binary(fn, element, p, q));
    return result;
  }

  /// Without copies to registers of the layout, and back.
  Regs spread(const Regs &some) const {
    Regs result(size_t(e.numRegs(type)), nullptr);
    size_t next = 0;
    for (const Chunk &c : chunks)
      for (int r : c.regs)
        result[size_t(r)] = some[next++];
    for (size_t r = 0; r < result.size(); ++r)
      result[r] = result[r & ~size_t(copyRegs)];
    return result;
  }
  Regs pick(const Regs &all) const {
    Regs result;
    for (const Chunk &c : chunks)
      for (int r : c.regs)
        result.push_back(all[size_t(r)]);
    return result;
  }

private:
  /// The bits of `mask`, moved together.
  llvm::Value *squeeze(llvm::Value *number, std::uint32_t mask) {
    mask &= (1u << threadBits) - 1;
    llvm::Value *result = e.i32(0);
    for (int to = 0; mask;) {
      int first = std::countr_zero(mask), run = std::countr_one(mask >> first);
      std::uint32_t field = ((1u << run) - 1) << first;
      llvm::Value *bits = b.CreateAnd(number, e.i32(field));
      bits = b.CreateLShr(bits, e.i32(first - to));
      result = b.CreateOr(result, bits);
      to += run;
      mask &= ~field;
    }
    return result;
  }

  llvm::Value *place(llvm::Value *part, const Chunk &c) {
    std::int64_t bytes = std::int64_t(c.regs.size() * byteSize(element));
    llvm::Value *p = b.CreateGEP(b.getInt8Ty(), part,
                                 b.CreateZExt(b.CreateMul(slot, e.i32(bytes)), b.getInt64Ty()));
    return b.CreateGEP(b.getInt8Ty(), p, e.i64(c.offset));
  }

  /// A load that sees what other blocks wrote before they counted.
  llvm::Value *loadFresh(int n, llvm::Value *pointer) {
    llvm::Type *vector = e.memoryVector(element, n);
    int count = 0;
    llvm::Type *words = e.wordType(vector, count);
    unsigned wordBits = words->getScalarSizeInBits();
    llvm::Type *reg = b.getIntNTy(std::max(16u, wordBits));
    std::string constraint = wordBits == 64 ? "l" : wordBits == 32 ? "r" : "h", outs, operands;
    llvm::SmallVector<llvm::Type *> results;
    for (int k = 0; k < count; ++k) {
      outs += "=" + constraint + ",";
      operands += (k ? ", $" : "$") + std::to_string(k);
      results.push_back(reg);
    }
    if (count > 1)
      operands = "{" + operands + "}";
    std::string text = "ld.relaxed.gpu.global." + (count > 1 ? "v" + std::to_string(count) + "." : "") + "b" +
                       std::to_string(wordBits) + " " + operands + ", [$" + std::to_string(count) + "];";
    llvm::Type *result = count == 1 ? reg : llvm::StructType::get(e.ctx, results);
    llvm::InlineAsm *load = llvm::InlineAsm::get(llvm::FunctionType::get(result, {pointer->getType()}, false),
                                                 text, outs + "l", /*hasSideEffects=*/true);
    llvm::CallInst *call = b.CreateCall(load, {pointer});
    call->setDoesNotThrow();
    if (count == 1)
      return b.CreateBitCast(b.CreateTrunc(call, words), vector);
    llvm::Value *loaded = llvm::PoisonValue::get(words);
    for (int k = 0; k < count; ++k)
      loaded = b.CreateInsertElement(loaded, b.CreateExtractValue(call, unsigned(k)), std::uint64_t(k));
    return b.CreateBitCast(loaded, vector);
  }

  EmitContext &e;
  Builder &b;
  mlir::Type type;
  DType element;
  std::optional<Layout> layout;
  int copyRegs = 0, threadBits = 0;
  std::uint32_t copyThreads = 0; ///< bits of the thread's number
  std::int64_t slots = 1;        ///< threads that hold different elements
  llvm::SmallVector<Chunk> chunks;
  llvm::Value *slot = nullptr, *copy = nullptr, *writesHere = nullptr;
};

void EmitContext::emitSplitRange(tgpu::SplitRangeOp op) {
  llvm::Value *part =
      b.CreateZExt(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y, {}), b.getInt64Ty());
  set(op.getPart(), {part});
  set(op.getFirst(), {b.CreateMul(part, partTrips, "", /*NUW=*/true, /*NSW=*/true)});
  set(op.getTrips(), {partTrips});
  split.possible = true;
  split.lower = *tgpu::launchNumber(op.getLower());
  split.upper = *tgpu::launchNumber(op.getUpper());
  split.step = *tgpu::launchNumber(op.getStep());
  split.minTrips = std::int64_t(op.getMinTrips());
  split.parts = std::int64_t(op.getParts());
}

void EmitContext::emitSharedPrograms(tgpu::SharedProgramsOp op) {
  set(op.getCount(), {partTrips});
  split.possible = split.stream = true;
  split.lower = *tgpu::launchNumber(op.getLower());
  split.upper = *tgpu::launchNumber(op.getUpper());
  split.step = *tgpu::launchNumber(op.getStep());
}

mlir::LogicalResult EmitContext::emitCombineParts(tgpu::CombinePartsOp op) {
  if (!workspace)
    return bug(op, "parts without a range to share");
  if (cluster > 1)
    return bug(op, "the parts of a program are blocks, not clusters");
  llvm::Type *i32Type = b.getInt32Ty(), *i64Type = b.getInt64Ty();
  llvm::SmallVector<tileir::BinaryFn> functions = op.functionList();
  llvm::SmallVector<Regs> own;
  for (mlir::Value v : op.getValues())
    own.push_back(regs(v));
  std::vector<PartsInMemory> values;
  std::int64_t bytes = 0;
  for (mlir::Type type : op.getValues().getTypes())
    values.emplace_back(*this, type, bytes);
  bytes = (bytes + partAlign - 1) / partAlign * partAlign;
  split.partBytes = bytes;

  llvm::Value *parts, *part, *program, *place = nullptr;
  if (op.getShare().empty()) {
    parts = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y, {});
    part = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y, {});
    program = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  } else {
    auto number = [&](unsigned i) { return b.CreateTrunc(scalar(op.getShare()[i]), i32Type); };
    program = number(0), place = number(1), part = number(2), parts = number(3);
  }
  llvm::BasicBlock *alone = b.GetInsertBlock(), *several = newBlock("parts"), *done = newBlock("parts.end");
  b.CreateCondBr(b.CreateICmpEQ(parts, i32(1)), done, several);

  b.SetInsertPoint(several);
  auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, i64Type); };
  llvm::Value *partials = b.CreateGEP(b.getInt8Ty(), workspace, i64(LaunchSplit::counterBytes));
  llvm::Value *mine = place ? wide(place) : b.CreateMul(wide(program), wide(parts));
  partials = b.CreateGEP(b.getInt8Ty(), partials, b.CreateMul(mine, i64(bytes)));
  auto partAt = [&](llvm::Value *number) {
    return b.CreateGEP(b.getInt8Ty(), partials, b.CreateMul(wide(number), i64(bytes)));
  };
  auto storePart = [&](llvm::Value *number, llvm::ArrayRef<Regs> all) {
    llvm::Value *at = partAt(number);
    for (auto [value, regs] : llvm::zip_equal(values, all))
      value.store(at, regs, value.writes());
  };
  auto choose = [&](llvm::Value *condition, const Regs &x, const Regs &y) {
    Regs r;
    for (auto [p, q] : llvm::zip_equal(x, y))
      r.push_back(b.CreateSelect(condition, p, q));
    return r;
  };
  // One thread counts for the block: what the others wrote before the barrier comes before its release, and
  // what they read after the next one comes after its acquire. True in the block that comes last of `most` + 1.
  llvm::Value *counts = b.CreateICmpEQ(thread, i32(0));
  auto arrive = [&](llvm::Value *counterNumber, llvm::Value *most) {
    emitBarrier(false);
    llvm::Value *counter = b.CreateGEP(b.getInt8Ty(), workspace, b.CreateMul(wide(counterNumber), i64(sizeof(std::uint32_t))));
    llvm::InlineAsm *count = llvm::InlineAsm::get(
        llvm::FunctionType::get(i32Type, {b.getInt1Ty(), counter->getType(), i32Type, i32Type}, false),
        "@$1 atom.acq_rel.gpu.global.inc.u32 $0, [$2], $3;", "=r,b,l,r,0,~{memory}", /*hasSideEffects=*/true);
    llvm::CallInst *before = b.CreateCall(count, {counts, counter, most, i32(0)});
    before->setDoesNotThrow();
    llvm::Value *isLast = b.CreateAnd(counts, b.CreateICmpEQ(before, most));
    return barrierThreads ? b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_red_or_aligned_count,
                                              {barrierNumber(), i32(barrierThreads), isLast})
                          : b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_red_or_aligned_all, {i32(0), isLast});
  };

  /// Parts first, first + stride, ..
  struct Row {
    llvm::Value *first, *stride, *count;
  };
  // Adds up some vectors of the parts of a row from number `from` to `to`, at least one, in turn. Several loads are under way
  // at once; where the parts run out, the last one is loaded again and left aside.
  auto sumOfSome = [&](PartsInMemory &value, llvm::ArrayRef<Chunk> some, tileir::BinaryFn fn, const Row &row, llvm::Value *from,
                       llvm::Value *to) {
    int count = 0;
    for (const Chunk &c : some)
      count += int(c.regs.size());
    int atOnce = count == registersAtOnce ? partsOfLarge
                                          : int(std::bit_floor(unsigned(std::clamp(registersAtOnce / count, 1, mostAtOnce))));
    llvm::Value *lastPart = b.CreateSub(to, i32(1));
    llvm::BasicBlock *entry = b.GetInsertBlock(), *body = newBlock("sum"), *end = newBlock("sum.end");
    b.CreateBr(body);
    b.SetInsertPoint(body);
    llvm::PHINode *at = b.CreatePHI(i32Type, 2);
    at->addIncoming(from, entry);
    llvm::SmallVector<Regs> loaded;
    for (int k = 0; k < atOnce; ++k) {
      llvm::Value *number = b.CreateAdd(at, i32(k));
      number = k ? b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, lastPart) : number;
      loaded.push_back(value.load(partAt(b.CreateAdd(row.first, b.CreateMul(number, row.stride))), some));
    }
    Regs acc;
    for (llvm::Value *v : loaded[0]) {
      llvm::PHINode *phi = llvm::PHINode::Create(v->getType(), 2, "", at->getIterator());
      phi->addIncoming(llvm::Constant::getNullValue(v->getType()), entry);
      acc.push_back(phi);
    }
    Regs sum = choose(b.CreateICmpEQ(at, from), loaded[0], value.combine(fn, acc, loaded[0]));
    for (int k = 1; k < atOnce; ++k)
      sum = choose(b.CreateICmpULT(b.CreateAdd(at, i32(k)), to), value.combine(fn, sum, loaded[size_t(k)]), sum);
    llvm::Value *next = b.CreateAdd(at, i32(atOnce));
    llvm::BasicBlock *latch = b.GetInsertBlock();
    at->addIncoming(next, latch);
    for (auto [phi, v] : llvm::zip_equal(acc, sum))
      llvm::cast<llvm::PHINode>(phi)->addIncoming(v, latch);
    dontUnroll(b.CreateCondBr(b.CreateICmpULT(next, to), body, end));
    b.SetInsertPoint(end);
    return sum;
  };
  // A large tile of sums in runs, so that what is added up takes the registers of the block's own sums bit by bit.
  auto sumOf = [&](PartsInMemory &value, tileir::BinaryFn fn, const Row &row, llvm::Value *from, llvm::Value *to) {
    Regs all;
    for (llvm::ArrayRef<Chunk> some : value.runs(registersAtOnce))
      all.append(sumOfSome(value, some, fn, row, from, to));
    return all;
  };
  auto gather = [&](const Row &row) {
    llvm::SmallVector<Regs> totals;
    for (auto [value, fn] : llvm::zip_equal(values, functions)) {
      llvm::Value *count = row.count;
      if (int copies = value.numCopies(); copies > 1) {
        llvm::Value *share = b.CreateUDiv(b.CreateAdd(row.count, i32(copies - 1)), i32(copies));
        llvm::Value *groups = b.CreateUDiv(b.CreateSub(b.CreateAdd(row.count, share), i32(1)), share);
        llvm::BasicBlock *before = b.GetInsertBlock(), *shared = newBlock("parts.shared"),
                         *inTurn = newBlock("parts.turn");
        b.CreateCondBr(b.CreateICmpUGE(row.count, i32(leastShare * copies)), shared, inTurn);

        b.SetInsertPoint(shared);
        // A copy that no share is left for does the last one too, and keeps the sum to itself.
        llvm::Value *number =
            b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value.copyNumber(), b.CreateSub(groups, i32(1)));
        llvm::Value *from = b.CreateMul(number, share);
        llvm::Value *to = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAdd(from, share), row.count);
        Regs some = sumOf(value, fn, row, from, to);
        emitBarrier(false); // all have read
        value.store(partAt(b.CreateAdd(row.first, b.CreateMul(number, row.stride))), value.spread(some),
                    b.CreateICmpEQ(value.copyNumber(), number));
        emitBarrier(false); // all is written
        llvm::BasicBlock *written = b.GetInsertBlock();
        b.CreateBr(inTurn);

        b.SetInsertPoint(inTurn);
        llvm::PHINode *left = b.CreatePHI(i32Type, 2);
        left->addIncoming(row.count, before);
        left->addIncoming(groups, written);
        count = left;
      }
      totals.push_back(value.spread(sumOf(value, fn, row, i32(0), count)));
    }
    return totals;
  };
  // How a block comes to `done`: from where, whether it goes on, with which totals.
  struct End {
    llvm::BasicBlock *from;
    bool runs;
    llvm::SmallVector<Regs> totals;
  };
  std::vector<End> ends{{alone, true, own}};
  auto goOn = [&](llvm::Value *isLast, llvm::BasicBlock *next) {
    ends.push_back({b.GetInsertBlock(), false, own});
    b.CreateCondBr(isLast, next, done);
    b.SetInsertPoint(next);
  };

  storePart(part, own);
  llvm::Value *one = i32(1);
  if (bytes < leastGrouped || place) {
    goOn(arrive(program, b.CreateSub(parts, one)), newBlock("parts.all"));
    llvm::SmallVector<Regs> totals = gather({i32(0), one, parts});
    ends.push_back({b.GetInsertBlock(), true, totals});
    b.CreateBr(done);
  } else {
    // The counters of a program: one for its groups, then one per group.
    llvm::Value *root = b.CreateFPToUI(b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b.CreateUIToFP(parts, b.getFloatTy()))), i32Type);
    auto ceilDiv = [&](llvm::Value *x, llvm::Value *y) { return b.CreateUDiv(b.CreateAdd(x, b.CreateSub(y, one)), y); };
    llvm::Value *programs = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {});
    llvm::Value *fits = b.CreateICmpULE(b.CreateMul(wide(programs), wide(b.CreateAdd(ceilDiv(parts, root), one))), i64(LaunchSplit::maxPrograms));
    llvm::Value *size = b.CreateSelect(b.CreateAnd(fits, b.CreateICmpUGE(parts, i32(leastGroups * leastGroups))), root, parts);
    llvm::Value *groups = ceilDiv(parts, size);
    llvm::Value *perProgram = b.CreateSelect(b.CreateICmpEQ(groups, one), one, b.CreateAdd(groups, one));
    llvm::Value *counter = b.CreateMul(program, perProgram);
    llvm::Value *group = b.CreateUDiv(part, size), *first = b.CreateMul(group, size);
    llvm::Value *members = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, size, b.CreateSub(parts, first));
    llvm::Value *ofGroup = b.CreateSelect(b.CreateICmpEQ(groups, one), counter, b.CreateAdd(counter, b.CreateAdd(group, one)));
    goOn(arrive(ofGroup, b.CreateSub(members, one)), newBlock("parts.group"));
    llvm::SmallVector<Regs> sums = gather({first, one, members});
    llvm::BasicBlock *several = newBlock("parts.groups");
    ends.push_back({b.GetInsertBlock(), true, sums});
    b.CreateCondBr(b.CreateICmpEQ(groups, one), done, several);
    b.SetInsertPoint(several);
    emitBarrier(false); // all have read
    storePart(first, sums);
    goOn(arrive(counter, b.CreateSub(groups, one)), newBlock("parts.all"));
    llvm::SmallVector<Regs> totals = gather({i32(0), size, groups});
    ends.push_back({b.GetInsertBlock(), true, totals});
    b.CreateBr(done);
  }

  b.SetInsertPoint(done);
  llvm::PHINode *runs = b.CreatePHI(b.getInt1Ty(), unsigned(ends.size()));
  for (const End &end : ends)
    runs->addIncoming(b.getInt1(end.runs), end.from);
  set(op.getLast(), {runs});
  for (size_t i = 0; i < own.size(); ++i) {
    Regs r;
    for (size_t k = 0; k < own[i].size(); ++k) {
      llvm::PHINode *phi = b.CreatePHI(own[i][k]->getType(), unsigned(ends.size()));
      for (const End &end : ends)
        phi->addIncoming(end.totals[i][k], end.from);
      r.push_back(phi);
    }
    set(op.getTotals()[unsigned(i)], std::move(r));
  }
  return mlir::success();
}

} // namespace sectile::codegen
