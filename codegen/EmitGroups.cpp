// SPDX-License-Identifier: Apache-2.0
/// \file Ping-pong: consumers in groups of warps, see ir/PingPong.h.
///
/// Two groups take turns at named barriers of both their threads: who begins a turn waits until the other one has ended its last
/// one, which arrives without waiting. Group 0 has as many programs as group 1 or one more, and the first turn, so whoever waits
/// is met; what is left at the end is one arrival that nobody waits for.
#include "codegen/EmitContext.h"

#include "ir/Turns.h"

#include "llvm/IR/InlineAsm.h"
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
  llvm::Value *own = inProgram ? b.CreateLShr(uniformWarp(), i32(2)) : group;
  // Numbers of barriers are immediate: in registers ptxas keeps one for each place.
  const std::string wait = pass ? "bar.arrive " : "bar.sync ", threads = ", " + std::to_string(inProgram ? barrierThreads : 2 * barrierThreads) + "; ";
  const int ofFirst = firstTurn + (pass ? 1 : 0), ofSecond = firstTurn + (pass ? 0 : 1);
  const std::string text = "{ .reg .pred P; setp.eq.u32 P, $0, 0; @P " + wait + std::to_string(ofFirst) + threads + "@!P " + wait + std::to_string(ofSecond) + threads + "}";
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {b.getInt32Ty()}, false);
  llvm::CallInst *call = b.CreateCall(type, llvm::InlineAsm::get(type, text, "r,~{memory}", /*hasSideEffects=*/true), {own});
  call->addFnAttr(llvm::Attribute::Convergent); // all of a warp, or none
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
