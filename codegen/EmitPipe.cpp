// SPDX-License-Identifier: Apache-2.0
/// \file Roles and pipes: mbarriers, TMA loads, persistent blocks.
///
/// A pipe's places are three pairs of (slot, parity) in memory of the thread that scalar replacement turns into registers:
/// of the producer, of the consumers' waits, and of their releases. Round the ring the parity changes.
#include "codegen/EmitContext.h"
#include "ir/StripStores.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {

/// Of one pipe.
struct PipeState {
  tgpu::PipeCreateOp op;
  tgpu::PipeType type;
  struct Place {
    llvm::Value *slot = nullptr, *parity = nullptr; ///< addresses of i32
  };
  Place fill, read, release;
  llvm::Value *held = nullptr; ///< slots that consumers have waited for and not released
  llvm::Value *emptyOfPair = nullptr; ///< of lane r: the first `empty` in the memory of the pair's block r & 1, a cluster address
};

/// Tensor maps of the kernel, each once, in the order of parameters.
llvm::SmallVector<std::pair<unsigned, tgpu::MapAttr>> EmitContext::collectMaps() {
  llvm::SmallVector<std::pair<unsigned, tgpu::MapAttr>> maps;
  auto add = [&](mlir::Value x, tgpu::MapAttr map) {
    auto arg = llvm::dyn_cast<mlir::BlockArgument>(x);
    if (!arg)
      return;
    std::pair<unsigned, tgpu::MapAttr> key(arg.getArgNumber(), map);
    if (!llvm::is_contained(maps, key))
      maps.push_back(key);
  };
  func.walk([&](mlir::Operation *op) {
    // Copies of threads need no map.
    if (auto load = llvm::dyn_cast<tgpu::TmaLoadOp>(op))
      add(load.getX(), load.getMap());
    else if (auto store = llvm::dyn_cast<tgpu::BulkStoreOp>(op); store && !store->hasAttr(tgpu::byThreadsAttr))
      add(store.getX(), store.getMap());
  });
  return maps;
}

TensorMap EmitContext::launchMap(unsigned arg, tgpu::MapAttr map) {
  TensorMap m;
  m.arg = int(arg);
  m.dtype = dtype(func.getArgument(arg).getType());
  for (std::int64_t axis : map.getOrder())
    m.order.push_back(int(axis));
  for (std::int64_t length : map.getBox())
    m.box.push_back(int(length));
  m.swizzle = int(map.getSwizzle());
  m.tf32 = map.getTf32();
  for (mlir::Attribute limit : map.getLimits())
    m.limits.push_back(llvm::cast<mlir::StringAttr>(limit).getValue().str());
  return m;
}

llvm::Value *EmitContext::mapPointer(mlir::Value x, tgpu::MapAttr map) {
  auto arg = llvm::dyn_cast<mlir::BlockArgument>(x);
  if (!arg)
    return nullptr;
  for (auto [i, m] : llvm::enumerate(maps))
    if (m.first == arg.getArgNumber() && m.second == map)
      return fn->getArg(firstMap + unsigned(i));
  return nullptr;
}

llvm::Value *EmitContext::sharedAddress(llvm::Value *pointer) {
  return b.CreatePtrToInt(pointer, b.getInt32Ty());
}

llvm::Value *EmitContext::uniformWarp() {
  if (!warpOfAll) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(setupEnd);
    warpOfAll = b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                                  {i32(-1), b.CreateLShr(thread, i32(laneBits)), i32(0), i32(31)});
  }
  return warpOfAll;
}

llvm::CallInst *EmitContext::uniformAssembly(llvm::Type *result, llvm::StringRef text, llvm::StringRef constraints,
                                             llvm::ArrayRef<llvm::Value *> operands) {
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *v : operands)
    types.push_back(v->getType());
  auto *type = llvm::FunctionType::get(result, types, false);
  llvm::CallInst *call =
      b.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), operands);
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

void EmitContext::waitForParity(llvm::Value *barrier, llvm::Value *parity) {
  uniformAssembly(b.getVoidTy(),
                  "{ .reg .pred P; W: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1; @P bra.uni D; bra.uni W; D: }",
                  "r,r,~{memory}", {sharedAddress(barrier), parity});
}

/// The full barriers of a pipe's slots, then the empty ones.
static llvm::Value *barrierOf(Builder &b, llvm::Value *shared, const PipeState &p, llvm::Value *slot, bool empty) {
  const std::int64_t first = std::int64_t(*tgpu::PipeCreateOp(p.op).getBarriers()) + (empty ? 8 * p.type.getStages() : 0);
  llvm::Value *start = b.CreateGEP(b.getInt8Ty(), shared, b.getInt32(std::uint32_t(first)));
  return b.CreateGEP(b.getInt8Ty(), start, b.CreateShl(slot, 3));
}

/// Moves a place on by one slot.
static void advance(Builder &b, const PipeState &p, const PipeState::Place &place) {
  llvm::Value *slot = b.CreateLoad(b.getInt32Ty(), place.slot), *next = b.CreateAdd(slot, b.getInt32(1));
  llvm::Value *wraps = b.CreateICmpEQ(next, b.getInt32(std::uint32_t(p.type.getStages())));
  b.CreateStore(b.CreateSelect(wraps, b.getInt32(0), next), place.slot);
  if (place.parity) {
    llvm::Value *parity = b.CreateLoad(b.getInt32Ty(), place.parity);
    b.CreateStore(b.CreateXor(parity, b.CreateZExt(wraps, b.getInt32Ty())), place.parity);
  }
}

PipeState &EmitContext::pipe(mlir::Value v) { return *pipes.find(v)->second; }

mlir::LogicalResult EmitContext::emitPipeCreate(tgpu::PipeCreateOp op) {
  if (!op.getOffset() || !op.getBarriers())
    return bug(op, "the pipe has no place in shared memory");
  auto state = std::make_shared<PipeState>();
  state->op = op;
  state->type = op.getPipe().getType();
  {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(setupEnd);
    auto cell = [&](std::int64_t initial) {
      llvm::Value *address = b.CreateAlloca(b.getInt32Ty());
      b.CreateStore(i32(initial), address);
      return address;
    };
    state->fill = {cell(0), cell(std::int64_t(op.getFree()))};
    state->read = {cell(0), cell(0)};
    state->release = {cell(0), nullptr};
    state->held = cell(0);
    if (hasPairs()) {
      auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getInt32Ty(), b.getInt32Ty()}, false);
      state->emptyOfPair = b.CreateCall(type, llvm::InlineAsm::get(type, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", false),
                                        {sharedAddress(barrierOf(b, sharedStart(), *state, i32(0), true)), b.CreateAnd(lane, i32(1))});
    }
  }
  pipes[op.getPipe()] = state;
  return mlir::success();
}

void EmitContext::byOneThread(llvm::function_ref<void()> emit) {
  if (!leads)
    return emit();
  llvm::BasicBlock *one = newBlock("one"), *rest = newBlock("rest");
  b.CreateCondBr(leads, one, rest);
  b.SetInsertPoint(one);
  emit();
  b.CreateBr(rest);
  b.SetInsertPoint(rest);
}

static bool isFilledByPair(tgpu::PipeCreateOp pipe) {
  return llvm::any_of(pipe->getUsers(), [](mlir::Operation *user) {
    auto load = llvm::dyn_cast<tgpu::TmaLoadOp>(user);
    return load && load.getMulticast();
  });
}

/// Threads move what lies in a slot to registers.
static bool isReadByThreads(tgpu::PipeCreateOp pipe) {
  return llvm::any_of(pipe->getUsers(), [](mlir::Operation *user) {
    auto wait = llvm::dyn_cast<tgpu::PipeWaitOp>(user);
    return wait && llvm::any_of(wait->getUsers(), [](mlir::Operation *reader) { return llvm::isa<tgpu::CopyOutOp>(reader); });
  });
}

/// Barriers, then the branch by role: all warps of the producers' warpgroup give registers away before one thread of
/// its first warp, or where they copy all threads, go on.
mlir::LogicalResult EmitContext::emitRoles(tgpu::RolesOp op) {
  llvm::BasicBlock *init = newBlock("init"), *other = newBlock("other"), *prefetch = newBlock("prefetch"),
                   *ready = newBlock("ready"), *producers = newBlock("producers"), *producer = newBlock("producer"),
                   *consumers = newBlock("consumers"), *end = newBlock("roles.end");
  b.CreateCondBr(b.CreateICmpEQ(thread, i32(0)), init, other);
  b.SetInsertPoint(init);
  for (auto &[value, p] : pipes)
    for (std::int64_t s = 0; s < p->type.getStages(); ++s)
      for (bool empty : {false, true})
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_mbarrier_init_shared,
                          {barrierOf(b, sharedStart(), *p, i32(s), empty),
                           i32(std::int64_t(empty ? p->op.getEmpty() : p->op.getFull()))});
  assembly("fence.mbarrier_init.release.cluster;", "~{memory}", {});
  b.CreateBr(ready);
  b.SetInsertPoint(other);
  b.CreateCondBr(b.CreateICmpEQ(thread, i32(warpSize)), prefetch, ready);
  b.SetInsertPoint(prefetch);
  for (unsigned i = 0; i < maps.size(); ++i)
    assembly("prefetch.tensormap [$0];", "l,~{memory}", {fn->getArg(firstMap + i)});
  b.CreateBr(ready);

  b.SetInsertPoint(ready);
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {i32(0)});
  if (hasPairs()) { // copies and arrivals may come from the other block
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned, {});
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
  }
  llvm::Value *number = groups > 1 ? warpOfBlock : uniformWarp();
  const int consumerWarps = warps * groups;
  b.CreateCondBr(b.CreateICmpUGE(number, i32(consumerWarps)), producers, consumers);

  b.SetInsertPoint(producers);
  const bool all = op.hasProducerThreads();
  if (op.getProducerRegs())
    uniformAssembly(b.getVoidTy(), "setmaxnreg.dec.sync.aligned.u32 " + std::to_string(op.getProducerRegs()) + ";", "", {});
  if (all) {
    b.CreateBr(producer);
    b.SetInsertPoint(producer);
    leads = b.CreateICmpEQ(thread, i32(warps * warpSize));
  } else {
    llvm::BasicBlock *elect = newBlock("elect");
    // A thread of one warp, or of one for each group of consumers.
    b.CreateCondBr(b.CreateICmpULT(b.CreateSub(number, i32(consumerWarps)), i32(groups)), elect, end);
    b.SetInsertPoint(elect);
    llvm::Value *elected = uniformAssembly(
        b.getInt32Ty(), "{ .reg .pred P; elect.sync _|P, 0xffffffff; selp.b32 $0, 1, 0, P; }", "=r", {});
    b.CreateCondBr(b.CreateICmpNE(elected, i32(0)), producer, end);
    b.SetInsertPoint(producer);
  }
  if (mlir::failed(emitBlock(op.getProducer().front())))
    return mlir::failure();
  // No block of a pair leaves while the other one may write into its memory: halves of tiles have come to its own consumers,
  // and here all arrivals have.
  for (auto &[value, p] : pipes)
    for (std::int64_t s = 0; s < (isFilledByPair(p->op) ? p->type.getStages() : 0); ++s) {
      waitForParity(barrierOf(b, sharedStart(), *p, b.CreateLoad(b.getInt32Ty(), p->fill.slot), true),
                    b.CreateLoad(b.getInt32Ty(), p->fill.parity));
      advance(b, *p, p->fill);
    }
  if (all) // nobody leaves while copies of its own are under way
    assembly("cp.async.wait_all;", "~{memory}", {});
  leads = nullptr;
  b.CreateBr(end);

  b.SetInsertPoint(consumers);
  if (op.getConsumerRegs())
    uniformAssembly(b.getVoidTy(), "setmaxnreg.inc.sync.aligned.u32 " + std::to_string(op.getConsumerRegs()) + ";", "", {});
  barrierThreads = warps * warpSize;
  emitFirstTurn();
  if (mlir::failed(emitBlock(op.getConsumer().front())))
    return mlir::failure();
  barrierThreads = 0;
  bool stores = op.getConsumer().walk([](tgpu::BulkStoreOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted();
  if (stores) // of the thread that issued copies; others have none
    assembly("cp.async.bulk.wait_group.read 0;", "~{memory}", {});
  b.CreateBr(end);
  b.SetInsertPoint(end);
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitPipeAcquire(tgpu::PipeAcquireOp op) {
  PipeState &p = pipe(op.getPipe());
  llvm::Value *slot = b.CreateLoad(b.getInt32Ty(), p.fill.slot), *parity = b.CreateLoad(b.getInt32Ty(), p.fill.parity);
  waitForParity(barrierOf(b, sharedStart(), p, slot, true), parity);
  if (op.getBytes())
    byOneThread([&] {
      assembly("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
               {sharedAddress(barrierOf(b, sharedStart(), p, slot, false)), i32(std::int64_t(op.getBytes()))});
    });
  return mlir::success();
}

llvm::Value *EmitContext::fullBarrier(mlir::Value v) {
  PipeState &p = pipe(v);
  return sharedAddress(barrierOf(b, sharedStart(), p, b.CreateLoad(b.getInt32Ty(), p.fill.slot), false));
}

mlir::LogicalResult EmitContext::emitPipeCommit(tgpu::PipeCommitOp op) {
  PipeState &p = pipe(op.getPipe());
  advance(b, p, p.fill);
  return mlir::success();
}

static llvm::Value *slotStart(Builder &b, llvm::Value *shared, const PipeState &p, llvm::Value *slot) {
  llvm::Value *start =
      b.CreateGEP(b.getInt8Ty(), shared, b.getInt32(std::uint32_t(*tgpu::PipeCreateOp(p.op).getOffset())));
  return b.CreateGEP(b.getInt8Ty(), start, b.CreateMul(slot, b.getInt32(std::uint32_t(p.type.slotBytes()))));
}

llvm::Value *EmitContext::bufferToFill(mlir::Value v, unsigned index) {
  PipeState &p = pipe(v);
  llvm::Value *slot = b.CreateLoad(b.getInt32Ty(), p.fill.slot);
  return b.CreateGEP(b.getInt8Ty(), slotStart(b, sharedStart(), p, slot), i32(p.type.bufferOffset(index)));
}

mlir::LogicalResult EmitContext::emitTmaLoad(tgpu::TmaLoadOp op) {
  PipeState &p = pipe(op.getPipe());
  llvm::Value *map = mapPointer(op.getX(), op.getMap());
  if (!map)
    return bug(op, "the tensor is no argument");
  llvm::ArrayRef<std::int64_t> order = op.getMap().getOrder();
  tgpu::BufferType buffer = p.type.getBuffers()[op.getIndex()];
  const std::int64_t panelBytes = buffer.bytes() / buffer.getShape()[0];
  const auto [panels, rows] = op.panelsAndRows();
  llvm::Value *target = bufferToFill(op.getPipe(), unsigned(op.getIndex())), *barrier = fullBarrier(op.getPipe());
  if (op.getMulticast()) { // this block's half
    const std::int64_t half = rows == buffer.getShape()[1] ? panels * panelBytes : panelBytes / 2;
    target = b.CreateGEP(b.getInt8Ty(), target, b.CreateMul(pairRank(), i32(half)));
  }
  std::string text = "cp.async.bulk.tensor." + std::to_string(order.size()) +
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" +
                     (op.getMulticast() ? ".multicast::cluster" : "") + " [$0], [$1, {";
  std::string constraints = "r,l";
  for (size_t i = 0; i < order.size(); ++i) {
    text += (i ? ", $" : "$") + std::to_string(i + 2);
    constraints += ",r";
  }
  text += "}], [$" + std::to_string(order.size() + 2) + "]";
  constraints += ",r";
  if (op.getMulticast()) {
    text += ", $" + std::to_string(order.size() + 3);
    constraints += ",h";
  }
  text += ";";
  constraints += ",~{memory}";
  llvm::SmallVector<llvm::Value *> coordinates;
  for (std::int64_t axis : order)
    coordinates.push_back(b.CreateTrunc(scalar(op.getOffsets()[size_t(axis)]), b.getInt32Ty()));
  byOneThread([&] {
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      llvm::SmallVector<llvm::Value *> operands{
          sharedAddress(b.CreateGEP(b.getInt8Ty(), target, i32(panel * panelBytes))), map};
      operands.append(coordinates);
      operands[2] = b.CreateAdd(coordinates[0], i32(panel * op.getMap().getBox()[0]));
      operands.push_back(barrier);
      if (auto blocks = op.getMulticast())
        operands.push_back(b.getInt16(std::uint16_t(*blocks)));
      assembly(text, constraints, operands);
    }
  });
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitPipeWait(tgpu::PipeWaitOp op) {
  PipeState &p = pipe(op.getPipe());
  llvm::Value *slot = b.CreateLoad(b.getInt32Ty(), p.read.slot), *parity = b.CreateLoad(b.getInt32Ty(), p.read.parity);
  waitForParity(barrierOf(b, sharedStart(), p, slot, false), parity);
  llvm::Value *start = slotStart(b, sharedStart(), p, slot);
  for (auto [i, buffer] : llvm::enumerate(op.getBuffers()))
    set(buffer, {b.CreateGEP(b.getInt8Ty(), start, i32(p.type.bufferOffset(unsigned(i))))});
  advance(b, p, p.read);
  b.CreateStore(b.CreateAdd(b.CreateLoad(b.getInt32Ty(), p.held), i32(1)), p.held);
  return mlir::success();
}

/// One arrival per warp, or one of each of two lanes: to either block of a pair. Reads of products need no ordering
/// beyond the wait for them. The place moves on only if there is something to release.
mlir::LogicalResult EmitContext::emitPipeRelease(tgpu::PipeReleaseOp op) {
  PipeState &p = pipe(op.getPipe());
  if (isReadByThreads(p.op)) // one lane arrives for all: the fences of the others (check_pipeline_c21) come first
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {i32(-1)});
  llvm::Value *held = b.CreateLoad(b.getInt32Ty(), p.held), *slot = b.CreateLoad(b.getInt32Ty(), p.release.slot);
  llvm::Value *releases = b.CreateICmpUGT(held, i32(std::int64_t(op.getKeep())));
  llvm::Value *arrives = b.CreateAnd(releases, b.CreateICmpULT(lane, i32(op.getPair() ? 2 : 1)));
  llvm::Value *barrier = op.getPair() ? b.CreateAdd(p.emptyOfPair, b.CreateShl(slot, 3))
                                      : sharedAddress(barrierOf(b, sharedStart(), p, slot, true));
  assembly(std::string("{ .reg .pred P; setp.ne.b32 P, $1, 0; @P mbarrier.arrive.shared::") + (op.getPair() ? "cluster" : "cta") +
               ".b64 _, [$0]; }",
           "r,r,~{memory}", {barrier, b.CreateZExt(arrives, b.getInt32Ty())});
  llvm::Value *next = b.CreateAdd(slot, i32(1));
  next = b.CreateSelect(b.CreateICmpEQ(next, i32(p.type.getStages())), i32(0), next);
  b.CreateStore(b.CreateSelect(releases, next, slot), p.release.slot);
  b.CreateStore(b.CreateSub(held, b.CreateZExt(releases, b.getInt32Ty())), p.held);
  return mlir::success();
}

// --- persistent blocks
// ------------------------------------------------------------------------------------------------------

/// How many programs lie along an axis, i32: the launch has fewer than 2^31.
llvm::Value *EmitContext::programsAlong(mlir::Value x, unsigned axis, std::int64_t size) {
  llvm::Value *dim = view(x).dims[axis];
  return b.CreateTrunc(b.CreateSDiv(b.CreateAdd(dim, i64(size - 1)), i64(size)), b.getInt32Ty());
}

void EmitContext::emitPrograms(tgpu::ProgramsOp op) {
  llvm::Value *count = i32(1);
  for (auto [axis, size] : llvm::enumerate(op.getSizes()))
    count = b.CreateMul(count, programsAlong(op.getX(), unsigned(axis), size));
  set(op.getCount(), {b.CreateZExt(count, b.getInt64Ty())});
}

void EmitContext::emitBlockNumber(tgpu::BlockNumberOp op) {
  llvm::Value *number = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  llvm::Value *count = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {});
  if (hasPairs()) {
    number = b.CreateLShr(number, 1);
    count = b.CreateLShr(count, 1);
  }
  if (cluster > 1 && !hasPairs()) { // the blocks of a cluster follow each other
    number = b.CreateUDiv(number, i32(cluster));
    count = b.CreateUDiv(count, i32(cluster));
  }
  if (groups > 1) { // the first groups of all blocks before the second ones
    number = b.CreateAdd(number, b.CreateMul(group, count));
    count = b.CreateMul(count, i32(groups));
  }
  set(op.getNumber(), {b.CreateZExt(number, b.getInt64Ty())});
  set(op.getCount(), {b.CreateZExt(count, b.getInt64Ty())});
}

llvm::Value *EmitContext::pairRank() { return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {}); }

void EmitContext::emitProgram(tgpu::ProgramOp op) {
  llvm::Value *rest = b.CreateTrunc(scalar(op.getNumber()), b.getInt32Ty());
  llvm::ArrayRef<std::int64_t> sizes = op.getSizes();
  const size_t n = sizes.size();
  auto give = [&](size_t d, llvm::Value *number) {
    set(op.getOffsets()[d], {b.CreateMul(b.CreateZExt(number, b.getInt64Ty()), i64(sizes[d]), "", true, true)});
  };
  size_t outer = n;
  if (n > 1 && op.getGroup() > 1) {
    outer = n - 2;
    llvm::Value *rows = programsAlong(op.getX(), unsigned(n - 2), sizes[n - 2]),
                *columns = programsAlong(op.getX(), unsigned(n - 1), sizes[n - 1]);
    llvm::Value *plane = b.CreateMul(rows, columns), *t = rest;
    if (outer > 0) {
      t = b.CreateURem(rest, plane);
      rest = b.CreateUDiv(rest, plane);
    }
    llvm::Value *group = i32(std::int64_t(op.getGroup()));
    llvm::Value *perGroup = b.CreateMul(group, columns);
    llvm::Value *turn = b.CreateUDiv(t, perGroup), *first = b.CreateMul(turn, group);
    llvm::Value *in = b.CreateURem(t, perGroup);
    llvm::Value *height = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, group, b.CreateSub(rows, first));
    give(n - 2, b.CreateAdd(first, b.CreateURem(in, height)));
    llvm::Value *column = b.CreateUDiv(in, height);
    llvm::Value *isBack = b.CreateTrunc(turn, b.getInt1Ty());
    give(n - 1, b.CreateSelect(isBack, b.CreateSub(b.CreateSub(columns, i32(1)), column), column));
  }
  for (size_t d = outer; d-- > 0;) {
    llvm::Value *number = rest;
    if (d > 0) {
      llvm::Value *count = programsAlong(op.getX(), unsigned(d), sizes[d]);
      number = b.CreateURem(rest, count);
      rest = b.CreateUDiv(rest, count);
    }
    give(d, number);
  }
}

} // namespace sectile::codegen
