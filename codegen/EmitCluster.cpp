// SPDX-License-Identifier: Apache-2.0
/// \file Blocks that run one program together: copies into the shared memory of all of them.
///
/// A copy is st.async: the bytes and the count of arrived bytes travel together, so that the receiver waits
/// for its mbarrier alone and nobody flushes memory. One thread of each block says how many bytes are to
/// come; the phase of the mbarrier is a bit in a register of every thread, turned by each wait.
#include "codegen/EmitContext.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <bit>

namespace sectile::codegen {

void EmitContext::assembly(llvm::StringRef text, llvm::StringRef constraints,
                           llvm::ArrayRef<llvm::Value *> operands) {
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *v : operands)
    types.push_back(v->getType());
  auto *type = llvm::FunctionType::get(b.getVoidTy(), types, false);
  b.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), operands);
}

/// Before all else: the counts of arrivals, then the signal that this block is ready for copies.
void EmitContext::emitClusterSetup() {
  auto starts = func.getOps<tgpu::ClusterStartOp>();
  if (starts.begin() == starts.end())
    return;
  func.walk([&](tgpu::PeerWaitOp op) {
    if (op.getArrival())
      phases[std::int64_t(*op.getArrival())] = nullptr;
  });
  llvm::BasicBlock *init = newBlock("init"), *ready = newBlock("ready");
  b.CreateCondBr(b.CreateICmpEQ(thread, i32(0)), init, ready);
  b.SetInsertPoint(init);
  for (auto &[arrival, phase] : phases)
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_mbarrier_init_shared,
                      {b.CreateGEP(b.getInt8Ty(), sharedStart(), i64(arrival)), i32(1)});
  assembly("fence.mbarrier_init.release.cluster;", "~{memory}", {});
  b.CreateBr(ready);
  b.SetInsertPoint(setupEnd);
  for (auto &[arrival, phase] : phases) {
    phase = b.CreateAlloca(b.getInt32Ty(), nullptr, "phase");
    b.CreateStore(i32(0), phase);
  }
  b.SetInsertPoint(ready);
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned, {});
}

mlir::LogicalResult EmitContext::emitPeerCopy(tgpu::PeerCopyOp op) {
  auto layout = tgpu::layoutOf(op.getValue().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  if (!op.getArrival() || !phases.count(std::int64_t(*op.getArrival())))
    return bug(op, "nobody waits for the copy, or no cluster_start comes before it");
  auto type = llvm::cast<tgpu::BufferType>(op.getBuffer().getType());
  llvm::Value *arrival = b.CreateGEP(b.getInt8Ty(), sharedStart(), i64(std::int64_t(*op.getArrival())));

  llvm::BasicBlock *expect = newBlock("expect"), *send = newBlock("send"), *sent = newBlock("sent");
  llvm::BasicBlock *choose = newBlock("choose");
  b.CreateCondBr(b.CreateICmpEQ(thread, i32(0)), expect, choose);
  b.SetInsertPoint(expect);
  assembly("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,r,~{memory}",
           {b.CreatePtrToInt(arrival, b.getInt64Ty()), i32(type.bytes())});
  b.CreateBr(choose);

  // Lanes that hold copies serve one block each, where there are enough; else one lane serves all.
  b.SetInsertPoint(choose);
  int peerBits = std::countr_zero(unsigned(cluster)), found = 0;
  std::uint32_t serving = 0;
  llvm::Value *peer = i32(0);
  for (int bit = 0; bit < laneBits && found < peerBits; ++bit)
    if (layout->lane()[size_t(bit)].isZero()) {
      llvm::Value *field = b.CreateAnd(b.CreateLShr(lane, i32(bit)), i32(1));
      peer = b.CreateOr(peer, b.CreateShl(field, i32(found++)));
      serving |= 1u << bit;
    }
  llvm::SmallVector<llvm::Value *> peers{peer};
  if (found < peerBits) {
    serving = 0;
    peers.clear();
    for (int block = 0; block < cluster; ++block)
      peers.push_back(i32(block));
  }
  b.CreateCondBr(ownsElements(*layout, /*perBlock=*/false, serving), send, sent);

  b.SetInsertPoint(send);
  const Geometry &g = geometry(*layout);
  Regs value = regs(op.getValue());
  auto mapped = [&](llvm::Value *pointer, llvm::Value *block) {
    llvm::Value *there = b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {pointer, block});
    return b.CreatePtrToInt(there, b.getInt64Ty());
  };
  for (llvm::Value *block : peers) {
    llvm::Value *count = mapped(arrival, block);
    for (int r = 0; r < layout->numRegs(); ++r) {
      if (!ownsRegister(*layout, r))
        continue;
      llvm::SmallVector<llvm::Value *, 5> coords;
      for (int d = 0; d < layout->rank(); ++d)
        coords.push_back(coordinate(g, r, d));
      llvm::Value *there = mapped(bufferElement(type, scalar(op.getBuffer()), coords), block);
      unsigned bits = unsigned(value[size_t(r)]->getType()->getPrimitiveSizeInBits());
      llvm::Value *word = b.CreateBitCast(value[size_t(r)], b.getIntNTy(bits));
      assembly("st.async.shared::cluster.mbarrier::complete_tx::bytes.b" + std::to_string(bits) +
                   " [$0], $1, [$2];",
               bits == 64 ? "l,l,l,~{memory}" : "l,r,l,~{memory}", {there, word, count});
    }
  }
  b.CreateBr(sent);
  b.SetInsertPoint(sent);
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitPeerWait(tgpu::PeerWaitOp op) {
  auto known = op.getArrival() ? phases.find(std::int64_t(*op.getArrival())) : phases.end();
  if (known == phases.end())
    return bug(op, "the count of arrivals has no place, or no cluster_start comes before it");
  llvm::Value *arrival = b.CreateGEP(b.getInt8Ty(), sharedStart(), i64(known->first));
  llvm::Value *phase = b.CreateLoad(b.getInt32Ty(), known->second);
  llvm::BasicBlock *wait = newBlock("wait"), *arrived = newBlock("arrived");
  b.CreateBr(wait);
  b.SetInsertPoint(wait);
  llvm::Value *done =
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {arrival, phase});
  b.CreateCondBr(done, arrived, wait);
  b.SetInsertPoint(arrived);
  b.CreateStore(b.CreateXor(phase, i32(1)), known->second);
  return mlir::success();
}

} // namespace sectile::codegen
