// SPDX-License-Identifier: Apache-2.0
/// \file Decoding. Buffers go to values by lifetime: a value holds its buffer from its op to the last op of
/// its block that uses it (or contains a use), then another value of the same size may have it.
#include "ir/InterpDecode.h"

#include "ir/TgpuDialect.h"
#include "ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

namespace sectile::tileir::interp {
namespace {

using namespace mlir;

constexpr int64_t maxLanes = int64_t(1) << 28;

class Decoder {
public:
  explicit Decoder(Program &program) : program(program) {}

  LogicalResult kernel(func::FuncOp func);

private:
  Program &program;
  const Isa machine = hostIsa();
  llvm::DenseMap<Value, int> slots;
  std::map<int64_t, std::vector<int>> freeBuffers;  ///< by bytes
  std::map<Operation *, std::vector<int>> expiring; ///< buffers whose last use an op is
  llvm::DenseMap<Value, bool> constants;            ///< values with a buffer of their own, made once

  int takeBuffer(int64_t bytes) {
    auto &list = freeBuffers[bytes];
    if (!list.empty()) {
      int buffer = list.back();
      list.pop_back();
      return buffer;
    }
    program.bufferBytes.push_back(bytes);
    return int(program.bufferBytes.size()) - 1;
  }

  static Operation *lastUse(Value v, Block *block, Operation *at) {
    Operation *last = at;
    for (Operation *user : v.getUsers()) {
      Operation *ancestor = block->findAncestorOpInBlock(*user);
      if (ancestor && last->isBeforeInBlock(ancestor))
        last = ancestor;
    }
    return last;
  }

  /// A slot for values of this type; -1 after a diagnostic. The buffer is taken at once unless `pinned`.
  int newSlot(Operation *op, Type type, bool pinned = false) {
    Slot slot;
    Type element = elementOf(type);
    if (auto view = dyn_cast<TensorType>(type)) {
      slot.isView = true;
      slot.rank = int(view.getRank());
      element = view.getElementType();
    }
    std::optional<DType> dtype = dtypeOfType(element);
    if (!dtype) {
      op->emitOpError() << "has a value of type " << type << ", whose element type has no meaning here";
      return -1;
    }
    slot.dtype = *dtype;
    if (auto tile = dyn_cast<RankedTensorType>(type)) {
      if (!tile.hasStaticShape()) {
        op->emitOpError() << "has a tile of unknown shape: " << type;
        return -1;
      }
      slot.rank = int(tile.getRank());
      for (auto [d, length] : llvm::enumerate(tile.getShape()))
        if (d < size_t(maxRank))
          slot.shape[d] = length;
      for (int64_t length : tile.getShape())
        if (length < 0 || __builtin_mul_overflow(slot.lanes, length, &slot.lanes) || slot.lanes > maxLanes) {
          op->emitOpError() << "has a tile of more than " << maxLanes << " lanes: " << type;
          return -1;
        }
    }
    if (slot.rank > maxRank) {
      op->emitOpError() << "has a value of rank " << slot.rank << ", more than " << maxRank;
      return -1;
    }
    if (!slot.isView) {
      int64_t bytes = (std::max<int64_t>(slot.lanes, 1) * int64_t(byteSize(slot.dtype)) + 63) / 64 * 64;
      if (pinned) {
        program.bufferBytes.push_back(bytes);
        slot.buffer = int(program.bufferBytes.size()) - 1;
      } else {
        slot.buffer = takeBuffer(bytes);
      }
    }
    program.slots.push_back(slot);
    return int(program.slots.size()) - 1;
  }
  void expire(int slot, Operation *last) {
    if (program.slots[size_t(slot)].buffer >= 0)
      expiring[last].push_back(program.slots[size_t(slot)].buffer);
  }
  void release(Operation *op) {
    auto it = expiring.find(op);
    if (it == expiring.end())
      return;
    for (int buffer : it->second)
      freeBuffers[program.bufferBytes[size_t(buffer)]].push_back(buffer);
    expiring.erase(it);
  }
  /// A slot for a result of `op`, or for what the result of a loop shares with its carried value.
  int resultSlot(Operation *op, Value result) {
    int slot = newSlot(op, result.getType());
    if (slot < 0)
      return -1;
    slots[result] = slot;
    expire(slot, lastUse(result, op->getBlock(), op));
    return slot;
  }
  /// A slot that lives as long as `op` runs: block arguments of its regions.
  int innerSlot(Operation *op, Value argument) {
    int slot = newSlot(op, argument.getType());
    if (slot < 0)
      return -1;
    slots[argument] = slot;
    expire(slot, op);
    return slot;
  }

  DType dtypeOf(Value v) const { return program.slots[size_t(slots.lookup(v))].dtype; }
  const Slot &slotOf(Value v) const { return program.slots[size_t(slots.lookup(v))]; }

  /// A step with every operand in, every result out.
  std::optional<Step> plainStep(Operation *op, StepFn run, bool pinned = false) {
    Step step;
    step.run = run;
    for (Value operand : op->getOperands())
      step.in.push_back(slots.lookup(operand));
    for (Value result : op->getResults()) {
      int slot = pinned ? newSlot(op, result.getType(), true) : resultSlot(op, result);
      if (slot < 0)
        return std::nullopt;
      if (pinned) {
        slots[result] = slot;
        constants[result] = true;
      }
      step.out.push_back(slot);
    }
    return step;
  }

  static bool elementBytes(Attribute attr, DType dtype, std::vector<char> &bytes) {
    if (auto dense = dyn_cast<DenseElementsAttr>(attr)) {
      if (!dense.isSplat())
        return false;
      attr = dense.getSplatValue<Attribute>();
    }
    llvm::APInt bits;
    if (auto f = dyn_cast<FloatAttr>(attr))
      bits = f.getValue().bitcastToAPInt();
    else if (auto i = dyn_cast<IntegerAttr>(attr))
      bits = i.getValue();
    else
      return false;
    uint64_t word = bits.zextOrTrunc(64).getZExtValue();
    bytes.resize(byteSize(dtype));
    std::memcpy(bytes.data(), &word, bytes.size());
    return true;
  }

  /// Values handed from `from` to the slots `to` at the end of `block`.
  void transfers(Body &body, ValueRange from, llvm::ArrayRef<int> to, Block *block) {
    llvm::DenseMap<int, int> swapped;
    for (auto [value, target] : llvm::zip_equal(from, to)) {
      Transfer t{slots.lookup(value), target, false};
      if (t.from == t.to)
        continue;
      Operation *def = value.getDefiningOp();
      t.swap = block && def && def->getBlock() == block && !constants.lookup(value) && !swapped.count(t.from);
      if (t.swap)
        swapped[t.from] = t.to;
      body.transfers.push_back(t);
    }
    for (const Transfer &x : body.transfers)
      for (const Transfer &y : body.transfers)
        body.overlapping |= &x != &y && x.from == y.to;
  }

  LogicalResult block(Block &b, Body &body) {
    for (Operation &op : b.without_terminator()) {
      if (failed(operation(op, body)))
        return failure();
      release(&op);
    }
    return success();
  }

  LogicalResult operation(Operation &op, Body &body);
  LogicalResult unknown(Operation &op) { return op.emitOpError() << "has no meaning to the interpreter"; }

  // One family each; a null kernel is an op on a type it does not exist for.
  LogicalResult noSuchKernel(Operation &op) {
    return op.emitOpError() << "is not defined on " << describe(op.getOperand(0).getType());
  }
  LogicalResult unary(UnaryOp op, Body &body);
  LogicalResult binary(Operation *op, BinaryFn fn, Body &body);
  LogicalResult compare(Operation *op, ComparePred pred, bool isUnsigned, Body &body);
  LogicalResult select(Operation *op, Body &body);
  LogicalResult fma(Operation *op, Body &body);
  LogicalResult conversion(Operation *op, Body &body);
  LogicalResult constant(Operation *op, Attribute value);
  LogicalResult reduce(ReduceOp op, Body &body);
  LogicalResult mma(MmaOp op, Body &body);
  LogicalResult shape(Operation *op, Body &body);
  LogicalResult memory(Operation *op, Body &body);
  LogicalResult grid(GridOp op, Body &body);
  LogicalResult forLoop(scf::ForOp op, Body &body);
  LogicalResult ifElse(scf::IfOp op, Body &body);
  LogicalResult whileLoop(scf::WhileOp op, Body &body);
  LogicalResult arith(Operation *op, Body &body);
};

// --- computing
// --------------------------------------------------------------------------------------------------

LogicalResult Decoder::unary(UnaryOp op, Body &body) {
  auto step = plainStep(op, stepUnary);
  if (!step)
    return failure();
  step->unary = op.getFn() == UnaryFn::k_bits ? bitsKernel(dtypeOf(op.getResult()))
                                              : unaryKernel(op.getFn(), dtypeOf(op.getX()), machine);
  if (!step->unary)
    return noSuchKernel(*op);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::binary(Operation *op, BinaryFn fn, Body &body) {
  auto step = plainStep(op, stepBinary);
  if (!step)
    return failure();
  step->binary = binaryKernel(fn, dtypeOf(op->getOperand(0)), machine);
  if (!step->binary)
    return noSuchKernel(*op);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::compare(Operation *op, ComparePred pred, bool isUnsigned, Body &body) {
  auto step = plainStep(op, stepBinary);
  if (!step)
    return failure();
  DType dtype = dtypeOf(op->getOperand(0));
  if (isUnsigned)
    switch (byteSize(dtype)) {
    case 1:
      dtype = DType::u8;
      break;
    case 2:
      dtype = DType::u16;
      break;
    case 4:
      dtype = DType::u32;
      break;
    default:
      dtype = DType::u64;
      break;
    }
  step->binary = compareKernel(pred, dtype, machine);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::select(Operation *op, Body &body) {
  auto step = plainStep(op, stepSelect);
  if (!step)
    return failure();
  step->select = selectKernel(dtypeOf(op->getResult(0)), machine);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::fma(Operation *op, Body &body) {
  auto step = plainStep(op, stepFma);
  if (!step)
    return failure();
  step->fma = fmaKernel(dtypeOf(op->getResult(0)), machine);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::conversion(Operation *op, Body &body) {
  auto step = plainStep(op, stepUnary);
  if (!step)
    return failure();
  step->unary = castKernel(dtypeOf(op->getResult(0)), dtypeOf(op->getOperand(0)), machine);
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::constant(Operation *op, Attribute value) {
  auto step = plainStep(op, stepConstant, /*pinned=*/true);
  if (!step)
    return failure();
  if (!elementBytes(value, dtypeOf(op->getResult(0)), step->bytes))
    return op->emitOpError() << "is no integer, float or splat";
  program.once.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::reduce(ReduceOp op, Body &body) {
  auto step = plainStep(op, stepReduce);
  if (!step)
    return failure();
  step->reduce = reduceKernel(op.getKind(), dtypeOf(op.getX()), machine);
  if (!step->reduce)
    return noSuchKernel(*op);
  const Slot &x = slotOf(op.getX());
  int64_t axis = op.getAxis(), outer = 1, inner = 1;
  for (int d = 0; d < x.rank; ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : x.shape[size_t(d)];
  step->ints = {axis, outer, x.shape[size_t(axis)], inner};
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::mma(MmaOp op, Body &body) {
  auto step = plainStep(op, stepMma);
  if (!step)
    return failure();
  DType a = dtypeOf(op.getA()), b = dtypeOf(op.getB()), acc = dtypeOf(op.getAcc());
  DType compute = acc == DType::f16 ? DType::f32 : acc;
  step->mma = mmaKernel(compute, machine);
  step->widen = widenKernel(a, machine);
  step->widenRight = widenKernel(b, machine);
  if (op.getPolicy() == MmaPolicy::k_tf32 && a == DType::f32)
    step->widen = step->widenRight = tf32Kernel(machine);
  if (acc == DType::f16) {
    step->unary = castKernel(DType::f32, DType::f16, machine);
    step->narrow = castKernel(DType::f16, DType::f32, machine);
  }
  bool fits = step->mma && (step->widen || a == compute) && (step->widenRight || b == compute) &&
              (compute == DType::i32) == (isInt(a) && isInt(b));
  if (!fits)
    return noSuchKernel(*op);
  auto room = [](const Slot &slot) { return (slot.lanes * 4 + 63) / 64 * 64; };
  int64_t forA = step->widen ? room(slotOf(op.getA())) : 0,
          forB = step->widenRight ? room(slotOf(op.getB())) : 0;
  int64_t forC = step->unary ? room(slotOf(op.getAcc())) : 0;
  step->ints = {0, forA, forA + forB};
  program.scratchBytes = std::max(program.scratchBytes, forA + forB + forC);
  body.steps.push_back(std::move(*step));
  return success();
}

// --- tiles
// ------------------------------------------------------------------------------------------------------

LogicalResult Decoder::shape(Operation *op, Body &body) {
  bool once = isa<IotaOp>(op) || (isa<SplatOp>(op) && constants.lookup(op->getOperand(0)));
  StepFn run = llvm::TypeSwitch<Operation *, StepFn>(op)
                   .Case<IotaOp>([](auto) { return stepIota; })
                   .Case<SplatOp>([](auto) { return stepSplat; })
                   .Case<BroadcastOp>([](auto) { return stepBroadcast; })
                   .Case<ReshapeOp>([](auto) { return stepReshape; })
                   .Case<PermuteOp>([](auto) { return stepPermute; })
                   .Case<KeepOp>([](auto) { return stepKeep; })
                   .Case<FillOp>([](auto) { return stepFill; })
                   .Default(stepCopy);
  auto step = plainStep(op, run, once);
  if (!step)
    return failure();
  if (auto iota = dyn_cast<IotaOp>(op))
    step->ints = {int64_t(iota.getAxis())};
  if (auto permute = dyn_cast<PermuteOp>(op))
    step->ints.assign(permute.getPerm().begin(), permute.getPerm().end());
  if (isa<FillOp>(op))
    step->select = selectKernel(dtypeOf(op->getResult(0)), machine);
  (once ? program.once : body.steps).push_back(std::move(*step));
  return success();
}

// --- memory
// -----------------------------------------------------------------------------------------------------

LogicalResult Decoder::memory(Operation *op, Body &body) {
  StepFn run = llvm::TypeSwitch<Operation *, StepFn>(op)
                   .Case<DimOp>([](auto) { return stepDim; })
                   .Case<SliceOp>([](auto) { return stepSlice; })
                   .Case<LoadOp>([](auto) { return stepLoad; })
                   .Case<StoreOp>([](auto) { return stepStore; })
                   .Case<GatherOp>([](auto) { return stepGather; })
                   .Case<tgpu::GlobalLoadOp>([](auto) { return stepGlobalLoad; })
                   .Case<tgpu::GlobalStoreOp>([](auto) { return stepGlobalStore; })
                   .Case<tgpu::GlobalGatherOp>([](auto) { return stepGlobalGather; })
                   .Case<tgpu::FillOutsideOp>([](auto) { return stepFillOutside; })
                   .Case<tgpu::MisalignOp>([](auto) { return stepMisalign; })
                   .Default(StepFn(nullptr));
  auto step = plainStep(op, run);
  if (!step)
    return failure();
  if (auto dim = dyn_cast<DimOp>(op))
    step->ints = {int64_t(dim.getAxis())};
  if (auto slice = dyn_cast<SliceOp>(op))
    step->ints = {int64_t(slice.getAxis())};
  if (auto gather = dyn_cast<GatherOp>(op))
    for (Value index : gather.getIndices())
      if (byteSize(dtypeOf(index)) != 8)
        return op->emitOpError() << "has coordinates of type " << describe(index.getType()) << ", not index";
  if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op)) {
    step->ints.assign(load.getAxes().begin(), load.getAxes().end());
    if (!elementBytes(load.getPad(), dtypeOf(load.getResult()), step->bytes))
      return op->emitOpError() << "has a pad that is no number";
  }
  if (auto misalign = dyn_cast<tgpu::MisalignOp>(op))
    step->ints = {int64_t(misalign.getBytes()), int64_t(byteSize(*dtypeOfType(misalign.getX().getType().getElementType())))};
  if (auto fill = dyn_cast<tgpu::FillOutsideOp>(op)) {
    step->ints.assign(fill.getAxes().begin(), fill.getAxes().end());
    if (!elementBytes(fill.getFill(), dtypeOf(fill.getResult()), step->bytes))
      return op->emitOpError() << "has a fill that is no number";
  }
  if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op)) {
    step->ints.assign(store.getAxes().begin(), store.getAxes().end());
    step->bytes.assign(store.getMask() ? 1 : 0, 1);
  }
  body.steps.push_back(std::move(*step));
  return success();
}

LogicalResult Decoder::grid(GridOp op, Body &body) {
  auto argument = dyn_cast<BlockArgument>(op.getX());
  if (!argument || !isa<func::FuncOp>(argument.getOwner()->getParentOp()))
    return op.emitOpError() << "does not cover an argument of the kernel";
  if (!program.grid.empty())
    return op.emitOpError() << "is the second grid of the kernel";
  if (op.getSizes().size() > size_t(maxRank))
    return op.emitOpError() << "has " << op.getSizes().size() << " axes, more than " << maxRank;
  for (auto [d, tile] : llvm::enumerate(op.getSizes()))
    program.grid.push_back({int(argument.getArgNumber()), int(d), tile});
  auto step = plainStep(op, stepGrid);
  if (!step)
    return failure();
  body.steps.push_back(std::move(*step));
  return success();
}

// --- control flow
// -----------------------------------------------------------------------------------------------

LogicalResult Decoder::forLoop(scf::ForOp op, Body &body) {
  Step step;
  step.run = stepFor;
  for (Value bound : {op.getLowerBound(), op.getUpperBound(), op.getStep()})
    step.in.push_back(slots.lookup(bound));
  step.ints = {op.getUnsignedCmp() ? int64_t(byteSize(dtypeOf(op.getLowerBound())) * 8) : 0};
  llvm::SmallVector<int> carried;
  for (auto [result, argument] : llvm::zip_equal(op.getResults(), op.getRegionIterArgs())) {
    int slot = resultSlot(op, result);
    if (slot < 0)
      return failure();
    slots[argument] = slot;
    carried.push_back(slot);
  }
  int induction = innerSlot(op, op.getInductionVar());
  if (induction < 0)
    return failure();
  step.out = {induction};
  step.bodies.resize(2);
  transfers(step.bodies[0], op.getInitArgs(), carried, nullptr);
  if (failed(block(*op.getBody(), step.bodies[1])))
    return failure();
  auto yield = cast<scf::YieldOp>(op.getBody()->getTerminator());
  transfers(step.bodies[1], yield.getOperands(), carried, op.getBody());
  release(yield);
  body.steps.push_back(std::move(step));
  return success();
}

LogicalResult Decoder::ifElse(scf::IfOp op, Body &body) {
  Step step;
  step.run = stepIf;
  step.in = {slots.lookup(op.getCondition())};
  llvm::SmallVector<int> results;
  for (Value result : op.getResults()) {
    results.push_back(resultSlot(op, result));
    if (results.back() < 0)
      return failure();
  }
  step.bodies.resize(2);
  for (auto [i, region] : llvm::enumerate(op->getRegions())) {
    if (region.empty())
      continue;
    if (failed(block(region.front(), step.bodies[i])))
      return failure();
    Operation *yield = region.front().getTerminator();
    transfers(step.bodies[i], yield->getOperands(), results, &region.front());
    release(yield);
  }
  body.steps.push_back(std::move(step));
  return success();
}

LogicalResult Decoder::whileLoop(scf::WhileOp op, Body &body) {
  Step step;
  step.run = stepWhile;
  llvm::SmallVector<int> before, after;
  for (auto [result, argument] : llvm::zip_equal(op.getResults(), op.getAfterArguments())) {
    after.push_back(resultSlot(op, result));
    if (after.back() < 0)
      return failure();
    slots[argument] = after.back();
  }
  for (Value argument : op.getBeforeArguments()) {
    before.push_back(innerSlot(op, argument));
    if (before.back() < 0)
      return failure();
  }
  step.bodies.resize(3);
  transfers(step.bodies[0], op.getInits(), before, nullptr);
  if (failed(block(*op.getBeforeBody(), step.bodies[1])))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  step.bodies[1].condition = slots.lookup(condition.getCondition());
  transfers(step.bodies[1], condition.getArgs(), after, op.getBeforeBody());
  release(condition);
  if (failed(block(*op.getAfterBody(), step.bodies[2])))
    return failure();
  scf::YieldOp yield = op.getYieldOp();
  transfers(step.bodies[2], yield.getOperands(), before, op.getAfterBody());
  release(yield);
  body.steps.push_back(std::move(step));
  return success();
}

// --- arith, as far as it is total
// -------------------------------------------------------------------------------

LogicalResult Decoder::arith(Operation *op, Body &body) {
  namespace ar = mlir::arith;
  auto fn = llvm::TypeSwitch<Operation *, std::optional<BinaryFn>>(op)
                .Case<ar::AddIOp>([](auto) { return BinaryFn::k_add; })
                .Case<ar::SubIOp>([](auto) { return BinaryFn::k_sub; })
                .Case<ar::MulIOp>([](auto) { return BinaryFn::k_mul; })
                .Case<ar::AndIOp>([](auto) { return BinaryFn::k_bitand; })
                .Case<ar::OrIOp>([](auto) { return BinaryFn::k_bitor; })
                .Case<ar::XOrIOp>([](auto) { return BinaryFn::k_bitxor; })
                .Case<ar::MaxSIOp>([](auto) { return BinaryFn::k_max; })
                .Case<ar::MinSIOp>([](auto) { return BinaryFn::k_min; })
                .Default(std::nullopt);
  bool truth = elementOf(op->getResult(0).getType()).isInteger(1);
  // On i1 these four differ from the truth values of `tile`.
  if (fn && truth && isa<ar::AddIOp, ar::SubIOp, ar::MaxSIOp, ar::MinSIOp>(op))
    fn = isa<ar::MaxSIOp>(op)   ? BinaryFn::k_bitand
         : isa<ar::MinSIOp>(op) ? BinaryFn::k_bitor
                                : BinaryFn::k_bitxor;
  if (fn)
    return binary(op, *fn, body);
  if (auto c = dyn_cast<ar::ConstantOp>(op))
    return constant(op, c.getValue());
  if (isa<ar::SelectOp>(op))
    return select(op, body);
  if (isa<ar::IndexCastOp>(op))
    return conversion(op, body);
  if (auto cmp = dyn_cast<ar::CmpIOp>(op)) {
    ar::CmpIPredicate p = cmp.getPredicate();
    bool isUnsigned = p >= ar::CmpIPredicate::ult;
    if (elementOf(cmp.getLhs().getType()).isInteger(1) && !isUnsigned && p != ar::CmpIPredicate::eq &&
        p != ar::CmpIPredicate::ne)
      return unknown(*op);
    switch (p) {
    case ar::CmpIPredicate::eq:
      return compare(op, ComparePred::k_eq, false, body);
    case ar::CmpIPredicate::ne:
      return compare(op, ComparePred::k_ne, false, body);
    case ar::CmpIPredicate::slt:
    case ar::CmpIPredicate::ult:
      return compare(op, ComparePred::k_lt, isUnsigned, body);
    case ar::CmpIPredicate::sle:
    case ar::CmpIPredicate::ule:
      return compare(op, ComparePred::k_le, isUnsigned, body);
    case ar::CmpIPredicate::sgt:
    case ar::CmpIPredicate::ugt:
      return compare(op, ComparePred::k_gt, isUnsigned, body);
    case ar::CmpIPredicate::sge:
    case ar::CmpIPredicate::uge:
      return compare(op, ComparePred::k_ge, isUnsigned, body);
    }
  }
  return unknown(*op);
}

// --- all
// --------------------------------------------------------------------------------------------------------

LogicalResult Decoder::operation(Operation &op, Body &body) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<UnaryOp>([&](UnaryOp o) { return unary(o, body); })
      .Case<BinaryOp>([&](BinaryOp o) { return binary(o, o.getFn(), body); })
      .Case<CompareOp>([&](CompareOp o) { return compare(o, o.getPred(), false, body); })
      .Case<SelectOp>([&](SelectOp o) { return select(o, body); })
      .Case<FmaOp>([&](FmaOp o) { return fma(o, body); })
      .Case<CastOp>([&](CastOp o) { return conversion(o, body); })
      .Case<ConstantOp>([&](ConstantOp o) { return constant(o, o.getValue()); })
      .Case<ReduceOp>([&](ReduceOp o) { return reduce(o, body); })
      .Case<MmaOp>([&](MmaOp o) { return mma(o, body); })
      .Case<IotaOp, SplatOp, BroadcastOp, ReshapeOp, PermuteOp, KeepOp, FillOp, tgpu::ConvertLayoutOp>(
          [&](auto o) { return shape(o, body); })
      .Case<DimOp, SliceOp, LoadOp, StoreOp, GatherOp, tgpu::GlobalLoadOp, tgpu::GlobalStoreOp,
            tgpu::GlobalGatherOp, tgpu::FillOutsideOp, tgpu::MisalignOp>([&](auto o) { return memory(o, body); })
      .Case<GridOp>([&](GridOp o) { return grid(o, body); })
      .Case<scf::ForOp>([&](scf::ForOp o) { return forLoop(o, body); })
      .Case<scf::IfOp>([&](scf::IfOp o) { return ifElse(o, body); })
      .Case<scf::WhileOp>([&](scf::WhileOp o) { return whileLoop(o, body); })
      .Default([&](Operation *o) {
        if (isa_and_nonnull<mlir::arith::ArithDialect>(o->getDialect()) && o->getNumResults() == 1)
          return arith(o, body);
        return unknown(*o);
      });
}

LogicalResult Decoder::kernel(func::FuncOp func) {
  if (!llvm::hasSingleElement(func.getBody()))
    return func.emitOpError() << "is a kernel of several blocks or none; control flow must be structured";
  Block &entry = func.getBody().front();
  for (Value argument : entry.getArguments()) {
    int slot = newSlot(func, argument.getType(), /*pinned=*/true);
    if (slot < 0)
      return failure();
    if (isa<RankedTensorType>(argument.getType()))
      return func.emitOpError() << "has a tile as an argument: " << argument.getType();
    slots[argument] = slot;
    program.arguments.push_back(slot);
  }
  if (failed(block(entry, program.main)))
    return failure();
  Operation *end = entry.getTerminator();
  if (!isa<func::ReturnOp>(end) || end->getNumOperands() != 0)
    return end->emitOpError() << "ends a kernel, which returns nothing";
  return success();
}

} // namespace

std::unique_ptr<Program> decodeKernel(func::FuncOp kernel) {
  auto program = std::make_unique<Program>();
  if (failed(Decoder(*program).kernel(kernel)))
    return nullptr;
  return program;
}

} // namespace sectile::tileir::interp
