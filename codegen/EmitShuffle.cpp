// SPDX-License-Identifier: Apache-2.0
/// \file Layout conversions within warps, by shuffles; see ir/base/ShufflePlan.h.
#include "codegen/EmitContext.h"
#include "ir/base/ShufflePlan.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {

mlir::LogicalResult EmitContext::emitShuffles(tgpu::ConvertLayoutOp op, const ShufflePlan &plan) {
  const DType t = dtype(op.getType());
  const int bytes = int(byteSize(t));
  const auto packed = plan.packedBits(bytes);
  std::uint64_t inSource = 0, inResult = 0;
  for (auto [from, to] : packed) {
    inSource |= std::uint64_t(1) << from;
    inResult |= std::uint64_t(1) << to;
  }
  const int pieces = 1 << packed.size(), words = bytes > 4 ? bytes / 4 : 1;
  llvm::Type *vector = memoryVector(t, pieces);
  const unsigned bits = unsigned(pieces * bytes * 8);

  llvm::Value *thread = b.CreateOr(lane, b.CreateShl(warp, 5));
  /// i1: an odd number of these bits of the thread's number are set.
  std::map<std::uint32_t, llvm::Value *> parities;
  auto parity = [&](std::uint32_t mask) {
    llvm::Value *&v = parities[mask];
    if (!v) {
      llvm::Value *set = b.CreateAnd(thread, b.getInt32(mask));
      if (std::popcount(mask) > 1)
        set = b.CreateAnd(b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, set), b.getInt32(1));
      v = b.CreateICmpNE(set, i32(0));
    }
    return v;
  };
  // Columns that are their own lane bit need no work.
  llvm::Value *start = nullptr;
  std::uint32_t own = 0;
  for (int i = 0; i < plan.lanes().cols(); ++i) {
    const std::uint64_t column = plan.lanes().columns[size_t(i)];
    if (i < laneBits && column == std::uint64_t(1) << i)
      own |= 1u << i;
    else if (column) {
      llvm::Value *part =
          b.CreateSelect(parity(std::uint32_t(1) << i), b.getInt32(std::uint32_t(column)), b.getInt32(0));
      start = start ? b.CreateXor(start, part) : part;
    }
  }
  llvm::Value *kept = own == 31 ? lane : own ? b.CreateAnd(lane, b.getInt32(own)) : nullptr;
  llvm::Value *from = kept && start ? b.CreateXor(kept, start) : kept ? kept : start ? start : i32(0);

  /// The register bits of piece `e` of a word.
  auto pieceBits = [&](int e, bool source) {
    std::uint64_t r = 0;
    for (auto [i, pair] : llvm::enumerate(packed))
      if (e >> i & 1)
        r |= std::uint64_t(1) << (source ? pair.first : pair.second);
    return r;
  };
  auto exchange = [&](std::map<std::uint64_t, llvm::Value *> &registers,
                      const std::vector<ShufflePlan::Exchange> &exchanges) {
    for (const ShufflePlan::Exchange &e : exchanges) {
      std::map<std::uint64_t, llvm::Value *> old = registers;
      for (auto &[r, v] : registers)
        v = b.CreateSelect(parity(e.threads), old.at(r ^ e.reg), old.at(r));
    }
  };

  const Regs source = regs(op.getX());
  Regs result(size_t(numRegs(op.getType())));
  for (const Coords &rep : plan.oddReps()) {
    std::map<std::uint64_t, llvm::Value *> held, received;
    for (std::uint64_t r = 0; r < std::uint64_t(1) << plan.sourceBits(); ++r) {
      if (r & inSource)
        continue;
      Regs elements;
      for (int e = 0; e < pieces; ++e)
        elements.push_back(source[size_t(plan.sourceNumber(rep, r | pieceBits(e, true)))]);
      llvm::Value *word = b.CreateBitCast(packVector(t, elements), b.getIntNTy(bits));
      held[r] = bits < 32 ? b.CreateZExt(word, b.getInt32Ty()) : word;
    }
    exchange(held, plan.before());
    for (std::uint64_t k = 0; k < std::uint64_t(1) << plan.resultBits(); ++k) {
      if (k & inResult)
        continue;
      llvm::Value *value = held.at(plan.sourceReg(k));
      if (plan.stays(k)) {
        received[k] = value;
        continue;
      }
      llvm::Value *to = plan.laneOffset(k) ? b.CreateXor(from, i32(plan.laneOffset(k))) : from;
      auto shuffle = [&](llvm::Value *word) -> llvm::Value * {
        return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {i32(-1), word, to, i32(31)});
      };
      if (words == 1) {
        received[k] = shuffle(value);
        continue;
      }
      llvm::Value *low = shuffle(b.CreateTrunc(value, b.getInt32Ty()));
      llvm::Value *high = shuffle(b.CreateTrunc(b.CreateLShr(value, 32), b.getInt32Ty()));
      received[k] =
          b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
    }
    exchange(received, plan.after());
    for (auto &[k, value] : received) {
      llvm::Value *word = bits < 32 ? b.CreateTrunc(value, b.getIntNTy(bits)) : value;
      Regs elements(size_t(pieces), nullptr);
      unpackVector(t, b.CreateBitCast(word, vector), elements);
      for (int e = 0; e < pieces; ++e)
        result[size_t(plan.resultNumber(rep, k | pieceBits(e, false)))] = elements[size_t(e)];
    }
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

} // namespace sectile::codegen
