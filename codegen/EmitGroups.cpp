// SPDX-License-Identifier: Apache-2.0
/// \file Ping-pong: consumers in groups of warps, see ir/PingPong.h.
///
/// Two groups take turns at named barriers of both their threads: who begins a turn waits until the other one has ended its last
/// one, which arrives without waiting. Group 0 has as many programs as group 1 or one more, and the first turn, so whoever waits
/// is met; what is left at the end is one arrival that nobody waits for.
#include "codegen/EmitContext.h"

#include "ir/Turns.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {
namespace {

/// Named barriers (PTX ISA, barrier.sync): 0 is the block's, 1 and up those of groups, these the turns.
constexpr int firstTurn = 8;

} // namespace

void EmitContext::emitGroups(int count) {
  groups = count;
  threadOfBlock = thread;
  warpOfBlock = b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                                  {i32(-1), b.CreateLShr(thread, i32(laneBits)), i32(0), i32(31)});
  // Producer warp p loads for group p.
  const int consumers = warps * groups;
  llvm::Value *isProducer = b.CreateICmpUGE(warpOfBlock, i32(consumers));
  group = b.CreateSelect(isProducer, b.CreateSub(warpOfBlock, i32(consumers)), b.CreateUDiv(warpOfBlock, i32(warps)), "group");
  thread = b.CreateSub(threadOfBlock, b.CreateMul(group, i32(warps * warpSize)));
  warpOfAll = b.CreateSub(warpOfBlock, b.CreateMul(group, i32(warps)));
  groupShared = b.CreateGEP(b.getInt8Ty(), sharedStart(), b.CreateMul(group, i32(bytesOfBlock / groups)));
}

llvm::Value *EmitContext::barrierNumber() { return groups > 1 ? b.CreateAdd(group, i32(1)) : i32(1); }

void EmitContext::emitTurn(bool pass) {
  const bool inProgram = groups < 2;
  if (inProgram && !func->hasAttr(tgpu::turnsAttr))
    return;
  llvm::Value *own = inProgram ? b.CreateLShr(uniformWarp(), i32(2)) : group, *threads = i32(inProgram ? barrierThreads : 2 * barrierThreads);
  if (pass)
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_arrive_aligned_count,
                      {b.CreateSub(i32(firstTurn + 1), own), threads});
  else
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count, {b.CreateAdd(own, i32(firstTurn)), threads});
}

void EmitContext::emitFirstTurn() {
  if (groups < 2 && !func->hasAttr(tgpu::turnsAttr))
    return;
  llvm::Value *own = groups < 2 ? b.CreateLShr(uniformWarp(), i32(2)) : group;
  llvm::BasicBlock *second = newBlock("second"), *start = newBlock("start");
  b.CreateCondBr(b.CreateICmpEQ(own, i32(1)), second, start);
  b.SetInsertPoint(second);
  emitTurn(/*pass=*/true);
  b.CreateBr(start);
  b.SetInsertPoint(start);
}

} // namespace sectile::codegen
