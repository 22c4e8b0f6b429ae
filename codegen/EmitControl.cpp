// SPDX-License-Identifier: Apache-2.0
/// \file Functions, blocks, loops and the iteration space. `scf` regions become basic blocks with one phi per
/// register.
#include "codegen/EmitContext.h"
#include "ir/PingPong.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {

void EmitContext::emitParameters(LaunchInfo &launch) {
  llvm::SmallVector<llvm::Type *> types;
  llvm::Type *pointer = llvm::PointerType::get(ctx, 1);
  for (mlir::BlockArgument arg : func.getArguments()) {
    if (auto t = llvm::dyn_cast<tileir::TensorType>(arg.getType())) {
      types.push_back(pointer);
      types.append(size_t(2 * t.getRank()), b.getInt64Ty());
      launch.argRanks.push_back(int(t.getRank()));
    } else {
      DType element = dtype(arg.getType());
      types.push_back(element == DType::boolean ? b.getInt8Ty() : elementLlvm(element));
      launch.argRanks.push_back(-1);
    }
  }
  bool splits = !func.getOps<tgpu::SplitRangeOp>().empty() || !func.getOps<tgpu::SharedProgramsOp>().empty();
  if (splits)
    types.append({pointer, b.getInt64Ty()});
  maps = collectMaps();
  firstMap = unsigned(types.size());
  types.append(maps.size(), llvm::PointerType::get(ctx, 0));
  fn = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                              llvm::GlobalValue::ExternalLinkage, launch.symbol, mod);
  fn->setCallingConv(llvm::CallingConv::PTX_Kernel);
  fn->addFnAttr("nvvm.reqntid", std::to_string(launch.threads));
  for (auto [i, map] : llvm::enumerate(maps)) {
    const unsigned n = firstMap + unsigned(i);
    fn->addParamAttr(n, llvm::Attribute::getWithByValType(ctx, llvm::ArrayType::get(b.getInt8Ty(), 128)));
    fn->addParamAttr(n, llvm::Attribute::getWithAlignment(ctx, llvm::Align(64)));
    fn->addParamAttr(n, llvm::Attribute::get(ctx, "nvvm.grid_constant"));
    launch.maps.push_back(launchMap(map.first, map.second));
  }
  for (mlir::BlockArgument arg : func.getArguments())
    if (auto repack = func.getArgAttrOfType<mlir::DenseI64ArrayAttr>(arg.getArgNumber(), tgpu::repackAttr))
      launch.repacks.push_back({int(arg.getArgNumber()), int(repack[0]), std::vector<std::int64_t>(repack.asArrayRef().begin() + 1, repack.asArrayRef().end())});
  launch.assumesApart = func->hasAttr(tgpu::assumesApartAttr);
  launch.persistent = func->hasAttr(tgpu::persistentAttr);
  if (auto blocks = func->getAttrOfType<mlir::IntegerAttr>(tgpu::minBlocksAttr))
    fn->addFnAttr("nvvm.minctasm", std::to_string(blocks.getInt()));
  if (launch.cluster > 1)
    fn->addFnAttr("nvvm.cluster_dim", std::to_string(launch.cluster));
  fn->addFnAttr(llvm::Attribute::NoUnwind);

  llvm::BasicBlock *entry = llvm::BasicBlock::Create(ctx, "entry", fn);
  llvm::BasicBlock *body = llvm::BasicBlock::Create(ctx, "body", fn);
  b.SetInsertPoint(entry);
  setupEnd = b.CreateBr(body);
  b.SetInsertPoint(setupEnd);
  thread = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  lane = b.CreateAnd(thread, i32(warpSize - 1), "lane");
  if (auto attr = func->getAttrOfType<mlir::IntegerAttr>(tgpu::groupsAttr))
    emitGroups(int(attr.getInt()));
  warp = b.CreateLShr(thread, i32(laneBits), "warp");
  if (cluster > 1) {
    llvm::Value *block = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {});
    warp = b.CreateOr(warp, b.CreateMul(block, i32(warps)), "warp");
  }

  unsigned next = 0;
  for (mlir::BlockArgument arg : func.getArguments()) {
    auto t = llvm::dyn_cast<tileir::TensorType>(arg.getType());
    if (!t) {
      llvm::Value *v = fn->getArg(next++);
      if (dtype(arg.getType()) == DType::boolean)
        v = b.CreateICmpNE(v, b.getInt8(0));
      set(arg, {v});
      continue;
    }
    unsigned n = arg.getArgNumber();
    size_t rank = size_t(t.getRank());
    std::int64_t alignBytes = std::int64_t(byteSize(dtype(t)));
    if (auto align = func.getArgAttrOfType<mlir::IntegerAttr>(n, tileir::alignAttr))
      alignBytes = std::max(alignBytes, align.getInt());
    Regs all;
    fn->addParamAttr(next, llvm::Attribute::getWithAlignment(ctx, llvm::Align(std::uint64_t(alignBytes))));
    for (size_t k = 0; k < 1 + 2 * rank; ++k)
      all.push_back(fn->getArg(next++));
    auto unit = func.getArgAttrOfType<mlir::IntegerAttr>(n, tileir::unitStrideAttr);
    if (unit && unit.getInt() >= 0)
      all[1 + rank + size_t(unit.getInt())] = i64(1);
    set(arg, all);
  }
  if (splits) {
    workspace = fn->getArg(next++);
    partTrips = fn->getArg(next++);
  }
  b.SetInsertPoint(body);
}

mlir::LogicalResult EmitContext::emitFunction(LaunchInfo &launch) {
  emitParameters(launch);
  emitClusterSetup();
  for (auto grid : func.getOps<tileir::GridOp>()) {
    auto arg = llvm::dyn_cast<mlir::BlockArgument>(grid.getX());
    if (!arg)
      return bug(grid, "the iteration space is not that of an argument");
    for (auto [axis, size] : llvm::enumerate(grid.getSizes()))
      launch.grid.push_back({int(arg.getArgNumber()), int(axis), size});
  }
  func.walk([&](tgpu::ProgramsOp op) {
    if (launch.grid.empty())
      for (auto [axis, size] : llvm::enumerate(op.getSizes()))
        launch.grid.push_back({int(llvm::cast<mlir::BlockArgument>(op.getX()).getArgNumber()), int(axis), size});
  });
  if (mlir::failed(emitBlock(func.getBody().front())))
    return mlir::failure();
  if (auto range = func->getAttrOfType<mlir::DenseI64ArrayAttr>(tgpu::streamRangeAttr); range && launch.persistent) {
    auto number = [&](int i) { return LaunchNumber{.arg = int(range[3 * i]), .axis = int(range[3 * i + 1]), .value = range[3 * i + 2]}; };
    if (!split.possible) {
      split.lower = number(0), split.upper = number(1), split.step = number(2);
      split.partBytes = range[9];
    }
    split.stream = true;
    split.tripCycles = range[10];
  }
  launch.split = split;
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitBlock(mlir::Block &block) {
  for (mlir::Operation &op : block) {
    if (op.hasAttr(tgpu::turnTakeAttr))
      emitTurn(/*pass=*/false);
    if (mlir::failed(emitOp(&op)))
      return mlir::failure();
    if (op.hasAttr(tgpu::turnPassAttr))
      emitTurn(/*pass=*/true);
  }
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitOp(mlir::Operation *op) {
  if (llvm::isa<tileir::TileDialect>(op->getDialect()))
    return emitTileOp(op);
  if (llvm::isa<tgpu::TgpuDialect>(op->getDialect()))
    return emitTgpuOp(op);
  if (llvm::isa<mlir::arith::ArithDialect>(op->getDialect()))
    return emitArithOp(op);
  return llvm::TypeSwitch<mlir::Operation *, mlir::LogicalResult>(op)
      .Case([&](mlir::scf::ForOp o) { return emitFor(o); })
      .Case([&](mlir::scf::IfOp o) { return emitIf(o); })
      .Case([&](mlir::scf::WhileOp o) { return emitWhile(o); })
      .Case<mlir::scf::YieldOp, mlir::scf::ConditionOp>(
          [](auto) { return mlir::success(); }) // read by the parent
      .Case([&](mlir::func::ReturnOp) {
        b.CreateRetVoid();
        return mlir::success();
      })
      .Default([&](mlir::Operation *o) { return bug(o, "no lowering for " + o->getName().getStringRef()); });
}

mlir::LogicalResult EmitContext::emitTileOp(mlir::Operation *op) {
  using namespace tileir;
  auto done = [](auto &&) { return mlir::success(); };
  return llvm::TypeSwitch<mlir::Operation *, mlir::LogicalResult>(op)
      .Case([&](GridOp o) { return emitGrid(o); })
      .Case([&](DimOp o) {
        set(o.getLength(), {view(o.getX()).dims[size_t(o.getAxis())]});
        return mlir::success();
      })
      .Case([&](SliceOp o) { return done((emitSlice(o), 0)); })
      .Case([&](ConstantOp o) {
        mlir::Type t = o.getResult().getType();
        set(o.getResult(), Regs(size_t(numRegs(t)), constantOf(o.getValue(), dtype(t))));
        return mlir::success();
      })
      .Case([&](SplatOp o) {
        set(o.getResult(), Regs(size_t(numRegs(o.getResult().getType())), scalar(o.getX())));
        return mlir::success();
      })
      .Case([&](IotaOp o) { return done((emitIota(o), 0)); })
      .Case([&](UnaryOp o) { return emitUnary(o); })
      .Case([&](BinaryOp o) { return emitBinary(o); })
      .Case([&](CompareOp o) { return emitCompare(o); })
      .Case([&](SelectOp o) { return emitSelect(o); })
      .Case([&](FmaOp o) { return emitFma(o), mlir::success(); })
      .Case([&](CastOp o) { return emitCast(o); })
      .Case([&](BroadcastOp o) { return emitBroadcast(o); })
      .Case([&](ReshapeOp o) { return emitReshape(o); })
      .Case([&](PermuteOp o) { return emitPermute(o); })
      .Default([&](mlir::Operation *o) { return bug(o, o->getName().getStringRef() + " was not lowered"); });
}

mlir::LogicalResult EmitContext::emitTgpuOp(mlir::Operation *op) {
  using namespace tgpu;
  return llvm::TypeSwitch<mlir::Operation *, mlir::LogicalResult>(op)
      .Case([&](GlobalLoadOp o) { return emitGlobalLoad(o); })
      .Case([&](GlobalStoreOp o) { return emitGlobalStore(o); })
      .Case([&](GlobalGatherOp o) { return emitGlobalGather(o); })
      .Case([&](FillOutsideOp o) { return emitFillOutside(o); })
      .Case([&](BitsOp o) { return emitBits(o); })
      .Case([&](MisalignOp o) { return emitMisalign(o); })
      .Case([&](ConvertLayoutOp o) { return emitConvert(o); })
      .Case([&](BufferAllocOp o) { return emitBufferAlloc(o); })
      .Case([&](CopyOp o) { return emitCopy(o); })
      .Case([&](BufferViewOp o) { return set(o.getResult(), {scalar(o.getBuffer())}), mlir::success(); })
      .Case([&](CopyOutOp o) { return emitCopyOut(o); })
      .Case([&](BarrierOp o) {
        emitBarrier(o.getCluster());
        return mlir::success();
      })
      .Case([&](ClusterStartOp) {
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
        return mlir::success();
      })
      .Case([&](PeerCopyOp o) { return emitPeerCopy(o); })
      .Case([&](PeerWaitOp o) { return emitPeerWait(o); })
      .Case([&](ReduceOp o) { return emitReduce(o); })
      .Case([&](WarpAnyOp o) { return emitWarpAny(o), mlir::success(); })
      .Case([&](MmaSyncOp o) { return emitMmaSync(o); })
      .Case([&](MmaFmaOp o) { return emitMmaFma(o); })
      .Case([&](PipeCreateOp o) { return emitPipeCreate(o); })
      .Case([&](RolesOp o) { return emitRoles(o); })
      .Case([&](PipeAcquireOp o) { return emitPipeAcquire(o); })
      .Case([&](PipeCommitOp o) { return emitPipeCommit(o); })
      .Case([&](TmaLoadOp o) { return emitTmaLoad(o); })
      .Case([&](AsyncLoadOp o) { return emitAsyncLoad(o); })
      .Case([&](AsyncArriveOp o) { return emitAsyncArrive(o); })
      .Case([&](PipeWaitOp o) { return emitPipeWait(o); })
      .Case([&](PipeReleaseOp o) { return emitPipeRelease(o); })
      .Case([&](WgmmaOp o) { return emitWgmma(o); })
      .Case([&](WgmmaWaitOp o) { return emitWgmmaWait(o); })
      .Case([&](BulkStoreOp o) { return emitBulkStore(o); })
      .Case([&](FenceAsyncOp) {
        assembly("fence.proxy.async.shared::cta;", "~{memory}", {});
        return mlir::success();
      })
      .Case([&](BlockNumberOp o) { return emitBlockNumber(o), mlir::success(); })
      .Case([&](PairRankOp o) { return set(o.getRank(), {b.CreateZExt(pairRank(), b.getInt64Ty())}), mlir::success(); })
      .Case([&](ProgramsOp o) { return emitPrograms(o), mlir::success(); })
      .Case([&](ProgramOp o) { return emitProgram(o), mlir::success(); })
      .Case([&](SplitRangeOp o) { return emitSplitRange(o), mlir::success(); })
      .Case([&](SharedProgramsOp o) { return emitSharedPrograms(o), mlir::success(); })
      .Case([&](CombinePartsOp o) { return emitCombineParts(o); })
      .Default([&](mlir::Operation *o) { return bug(o, "no lowering for " + o->getName().getStringRef()); });
}

/// Upstream folds leave a few total integer ops on scalars (loop bounds).
mlir::LogicalResult EmitContext::emitArithOp(mlir::Operation *op) {
  namespace arith = mlir::arith;
  if (auto c = llvm::dyn_cast<arith::ConstantOp>(op)) {
    mlir::Type t = c.getType();
    set(c.getResult(), Regs(size_t(numRegs(t)), constantOf(c.getValue(), dtype(t))));
    return mlir::success();
  }
  if (llvm::isa<mlir::RankedTensorType>(op->getResult(0).getType()))
    return bug(op, op->getName().getStringRef() + " on a tile");
  auto arg = [&](unsigned n) { return scalar(op->getOperand(n)); };
  llvm::Value *r = llvm::TypeSwitch<mlir::Operation *, llvm::Value *>(op)
                       .Case([&](arith::AddIOp) { return b.CreateAdd(arg(0), arg(1)); })
                       .Case([&](arith::SubIOp) { return b.CreateSub(arg(0), arg(1)); })
                       .Case([&](arith::MulIOp) { return b.CreateMul(arg(0), arg(1)); })
                       .Case([&](arith::AndIOp) { return b.CreateAnd(arg(0), arg(1)); })
                       .Case([&](arith::OrIOp) { return b.CreateOr(arg(0), arg(1)); })
                       .Case([&](arith::XOrIOp) { return b.CreateXor(arg(0), arg(1)); })
                       .Case([&](arith::MinSIOp) {
                         return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, arg(0), arg(1));
                       })
                       .Case([&](arith::MaxSIOp) {
                         return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, arg(0), arg(1));
                       })
                       .Case([&](arith::SelectOp) { return b.CreateSelect(arg(0), arg(1), arg(2)); })
                       .Case([&](arith::IndexCastOp) {
                         return b.CreateSExtOrTrunc(arg(0), elementLlvm(dtype(op->getResult(0).getType())));
                       })
                       .Case([&](arith::CmpIOp o) {
                         static constexpr llvm::CmpInst::Predicate predicates[] = {
                             llvm::CmpInst::ICMP_EQ,  llvm::CmpInst::ICMP_NE,  llvm::CmpInst::ICMP_SLT,
                             llvm::CmpInst::ICMP_SLE, llvm::CmpInst::ICMP_SGT, llvm::CmpInst::ICMP_SGE,
                             llvm::CmpInst::ICMP_ULT, llvm::CmpInst::ICMP_ULE, llvm::CmpInst::ICMP_UGT,
                             llvm::CmpInst::ICMP_UGE};
                         return b.CreateICmp(predicates[unsigned(o.getPredicate())], arg(0), arg(1));
                       })
                       .Default([](mlir::Operation *) { return nullptr; });
  if (!r)
    return bug(op, "no lowering for " + op->getName().getStringRef());
  set(op->getResult(0), {r});
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitGrid(tileir::GridOp op) {
  View x = view(op.getX());
  size_t n = op.getSizes().size();
  // The launch has fewer than 2^31 programs, so the counts fit 32 bits wherever a program runs.
  llvm::Value *rest = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  if (cluster > 1) // the blocks of a cluster follow each other
    rest = b.CreateUDiv(rest, i32(cluster));
  for (size_t d = n; d-- > 0;) {
    std::int64_t size = op.getSizes()[d];
    llvm::Value *number = rest;
    if (d > 0) {
      llvm::Value *count = b.CreateSDiv(b.CreateAdd(x.dims[d], i64(size - 1)), i64(size));
      count = b.CreateTrunc(count, b.getInt32Ty());
      number = b.CreateURem(rest, count);
      rest = b.CreateUDiv(rest, count);
    }
    set(op.getResult(unsigned(d)),
        {b.CreateMul(b.CreateZExt(number, b.getInt64Ty()), i64(size), "", /*NUW=*/true, /*NSW=*/true)});
  }
  return mlir::success();
}

void EmitContext::emitSlice(tileir::SliceOp op) {
  Regs all = regs(op.getX());
  size_t rank = (all.size() - 1) / 2, axis = size_t(op.getAxis());
  llvm::Value *dim = all[1 + axis], *stride = all[1 + rank + axis];
  auto clamp = [&](llvm::Value *v) {
    v = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, i64(0));
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, dim);
  };
  llvm::Value *lo = clamp(scalar(op.getLo())), *hi = clamp(scalar(op.getHi()));
  auto type = llvm::cast<tileir::TensorType>(op.getX().getType());
  std::int64_t bytes = std::int64_t(byteSize(dtype(type)));
  all[0] = b.CreateGEP(b.getInt8Ty(), all[0], b.CreateMul(b.CreateMul(lo, stride), i64(bytes)));
  all[1 + axis] = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b.CreateSub(hi, lo), i64(0));
  set(op.getResult(), all);
}

// --- control flow
// ----------------------------------------------------------------------------------------------------

llvm::BasicBlock *EmitContext::newBlock(llvm::StringRef name) {
  return llvm::BasicBlock::Create(ctx, name, fn);
}

/// Elements of 16 bits, in pairs: a phi of each alone would have a register of its own.
static bool isPacked(const Regs &r) {
  return !r.empty() && r.size() % 2 == 0 && r[0]->getType()->getPrimitiveSizeInBits() == 16;
}

/// Of each value, the registers that phis have.
llvm::SmallVector<Regs> EmitContext::valuesOf(mlir::ValueRange range) {
  llvm::SmallVector<Regs> r;
  for (mlir::Value v : range) {
    Regs all = regs(v), words;
    if (isPacked(all))
      for (size_t k = 0; k < all.size(); k += 2)
        words.push_back(b.CreateBitCast(pair(all[k], all[k + 1]), b.getInt32Ty()));
    r.push_back(words.empty() ? all : words);
  }
  return r;
}

/// One phi per register of each value in `like`; values already known give the LLVM types.
llvm::SmallVector<Regs> EmitContext::makePhis(llvm::ArrayRef<mlir::Value> like, unsigned incoming) {
  llvm::SmallVector<Regs> r;
  for (mlir::Value v : like) {
    const Regs &all = regs(v);
    Regs phis;
    const bool packed = isPacked(all);
    for (size_t k = 0; k < all.size(); k += packed ? 2 : 1)
      phis.push_back(b.CreatePHI(packed ? b.getInt32Ty() : all[k]->getType(), incoming));
    r.push_back(std::move(phis));
  }
  return r;
}

/// A value from registers as valuesOf gives them.
void EmitContext::setFrom(mlir::Value v, const Regs &words) {
  if (!llvm::isa<mlir::RankedTensorType>(v.getType()) || words.size() == size_t(numRegs(v.getType())))
    return set(v, words);
  Regs all;
  llvm::Type *pairs = llvm::FixedVectorType::get(elementLlvm(dtype(v.getType())), 2);
  for (llvm::Value *word : words)
    for (std::uint64_t k : {0, 1})
      all.push_back(b.CreateExtractElement(b.CreateBitCast(word, pairs), k));
  set(v, std::move(all));
}

void EmitContext::addIncoming(llvm::ArrayRef<Regs> phis, llvm::ArrayRef<Regs> incoming,
                              llvm::BasicBlock *from) {
  for (auto [p, v] : llvm::zip_equal(phis, incoming))
    for (auto [phi, value] : llvm::zip_equal(p, v))
      llvm::cast<llvm::PHINode>(phi)->addIncoming(value, from);
}

void EmitContext::dontUnroll(llvm::Instruction *latch) {
  llvm::MDNode *off = llvm::MDNode::get(ctx, {llvm::MDString::get(ctx, "llvm.loop.unroll.disable")});
  llvm::MDNode *id = llvm::MDNode::getDistinct(ctx, {nullptr, off});
  id->replaceOperandWith(0, id);
  latch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

/// Guard, then a loop that tests at its end: what does not change leaves the loop without speculation.
mlir::LogicalResult EmitContext::emitFor(mlir::scf::ForOp op) {
  llvm::Value *lower = scalar(op.getLowerBound()), *upper = scalar(op.getUpperBound()),
              *step = scalar(op.getStep());
  auto before = [&](llvm::Value *x, llvm::Value *y) {
    return op.getUnsignedCmp() ? b.CreateICmpULT(x, y) : b.CreateICmpSLT(x, y);
  };
  llvm::SmallVector<mlir::Value> inits(op.getInitArgs());
  llvm::SmallVector<Regs> initial = valuesOf(op.getInitArgs());
  llvm::BasicBlock *guard = b.GetInsertBlock(), *body = newBlock("loop"), *done = newBlock("loop.end");
  b.CreateCondBr(before(lower, upper), body, done);

  b.SetInsertPoint(body);
  llvm::PHINode *iv = b.CreatePHI(lower->getType(), 2, "iv");
  llvm::SmallVector<Regs> carried = makePhis(inits, 2);
  iv->addIncoming(lower, guard);
  addIncoming(carried, initial, guard);
  set(op.getInductionVar(), {iv});
  for (auto [arg, r] : llvm::zip_equal(op.getRegionIterArgs(), carried))
    setFrom(arg, r);
  if (mlir::failed(emitBlock(*op.getBody())))
    return mlir::failure();
  llvm::SmallVector<Regs> yielded = valuesOf(op.getYieldedValues());
  // The next number may wrap past the upper bound: compare the distance instead, which cannot.
  llvm::Value *left = b.CreateSub(upper, iv);
  llvm::Value *more = b.CreateICmpUGT(left, step);
  llvm::Value *next = b.CreateAdd(iv, step, "iv.next");
  llvm::BasicBlock *latch = b.GetInsertBlock();
  // Products under way are waited for before their sums meet those of no iteration: a register copy would read them.
  auto wait = llvm::dyn_cast_or_null<tgpu::WgmmaWaitOp>(op->getNextNode());
  bool waits = wait && llvm::any_of(wait.getValues(), [&](mlir::Value v) { return v.getDefiningOp() == op; });
  llvm::BasicBlock *exit = waits ? newBlock("loop.exit") : done;
  dontUnroll(b.CreateCondBr(more, body, exit));
  iv->addIncoming(next, latch);
  addIncoming(carried, yielded, latch);
  if (waits) {
    b.SetInsertPoint(exit);
    llvm::SmallVector<Regs *> values;
    for (auto [result, r] : llvm::zip_equal(op.getResults(), yielded))
      if (llvm::is_contained(wait.getValues(), result))
        values.push_back(&r);
    waitForGroups(std::int64_t(wait.getPending()), values);
    b.CreateBr(done);
    latch = exit;
  }

  b.SetInsertPoint(done);
  llvm::SmallVector<Regs> results = makePhis(inits, 2);
  addIncoming(results, initial, guard);
  addIncoming(results, yielded, latch);
  for (auto [result, r] : llvm::zip_equal(op.getResults(), results))
    setFrom(result, r);
  if (waits)
    for (auto [value, ready] : llvm::zip_equal(wait.getValues(), wait.getResults()))
      if (value.getDefiningOp() == op)
        set(ready, regs(value));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitIf(mlir::scf::IfOp op) {
  llvm::BasicBlock *thenBlock = newBlock("then"), *elseBlock = newBlock("else"), *join = newBlock("join");
  b.CreateCondBr(scalar(op.getCondition()), thenBlock, elseBlock);

  b.SetInsertPoint(thenBlock);
  if (mlir::failed(emitBlock(*op.thenBlock())))
    return mlir::failure();
  llvm::SmallVector<mlir::Value> like(op.thenYield().getOperands());
  llvm::SmallVector<Regs> thenValues = valuesOf(op.thenYield().getOperands());
  llvm::BasicBlock *thenEnd = b.GetInsertBlock();
  b.CreateBr(join);

  b.SetInsertPoint(elseBlock);
  llvm::SmallVector<Regs> elseValues;
  if (op.elseBlock()) {
    if (mlir::failed(emitBlock(*op.elseBlock())))
      return mlir::failure();
    elseValues = valuesOf(op.elseYield().getOperands());
  }
  llvm::BasicBlock *elseEnd = b.GetInsertBlock();
  b.CreateBr(join);

  b.SetInsertPoint(join);
  llvm::SmallVector<Regs> results = makePhis(like, 2);
  addIncoming(results, thenValues, thenEnd);
  addIncoming(results, elseValues, elseEnd);
  for (auto [result, r] : llvm::zip_equal(op.getResults(), results))
    setFrom(result, r);
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitWhile(mlir::scf::WhileOp op) {
  llvm::SmallVector<mlir::Value> inits(op.getInits());
  llvm::SmallVector<Regs> initial = valuesOf(op.getInits());
  llvm::BasicBlock *entry = b.GetInsertBlock(), *test = newBlock("while.test"),
                   *body = newBlock("while.body"), *done = newBlock("while.end");
  b.CreateBr(test);
  b.SetInsertPoint(test);
  llvm::SmallVector<Regs> carried = makePhis(inits, 2);
  addIncoming(carried, initial, entry);
  for (auto [arg, r] : llvm::zip_equal(op.getBeforeArguments(), carried))
    setFrom(arg, r);
  if (mlir::failed(emitBlock(*op.getBeforeBody())))
    return mlir::failure();
  llvm::SmallVector<Regs> passed = valuesOf(op.getConditionOp().getArgs());
  b.CreateCondBr(scalar(op.getConditionOp().getCondition()), body, done);

  b.SetInsertPoint(body);
  for (auto [arg, r] : llvm::zip_equal(op.getAfterArguments(), passed))
    setFrom(arg, r);
  if (mlir::failed(emitBlock(*op.getAfterBody())))
    return mlir::failure();
  addIncoming(carried, valuesOf(op.getYieldOp().getOperands()), b.GetInsertBlock());
  dontUnroll(b.CreateBr(test));

  b.SetInsertPoint(done);
  for (auto [result, r] : llvm::zip_equal(op.getResults(), passed))
    setFrom(result, r);
  return mlir::success();
}

} // namespace sectile::codegen
