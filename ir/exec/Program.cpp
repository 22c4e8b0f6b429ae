// SPDX-License-Identifier: Apache-2.0
/// \file Decoding: which op has which maker, loops and branches as jumps, places of values.
#include "ir/exec/Program.h"

#include "ir/ProgramOrder.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace sectile;

namespace sectile::tgpu::exec {

// --- the table of ops
// -------------------------------------------------------------------------------------------

namespace {

using Maker = Action (*)(Program &, Operation *);
template <class... Ops> llvm::DenseMap<TypeID, Maker> tableOf() {
  llvm::DenseMap<TypeID, Maker> table;
  ((table[TypeID::get<Ops>()] = [](Program &p, Operation *op) { return make(p, cast<Ops>(op)); }), ...);
  return table;
}

const llvm::DenseMap<TypeID, Maker> &makers() {
  using namespace tileir;
  static const auto table =
      tableOf<ConstantOp, SplatOp, IotaOp, UnaryOp, CastOp, BitsOp, BinaryOp, CompareOp, SelectOp, FmaOp, BroadcastOp,
              PermuteOp, ReshapeOp, WarpAnyOp, GridOp, DimOp, SliceOp, ConvertLayoutOp, tgpu::ReduceOp, MmaSyncOp,
              MmaFmaOp, GlobalLoadOp, GlobalStoreOp, GlobalGatherOp, MisalignOp, FillOutsideOp, BufferAllocOp,
              BufferViewOp, CopyOp, CopyOutOp, BarrierOp, ClusterStartOp, PeerCopyOp, PeerWaitOp,
              SplitRangeOp, SharedProgramsOp, CombinePartsOp, PipeCreateOp, PipeAcquireOp, PipeCommitOp, PipeWaitOp,
              PipeReleaseOp, TmaLoadOp, AsyncLoadOp, AsyncArriveOp, BulkStoreOp, WgmmaOp, WgmmaWaitOp, FenceAsyncOp, BlockNumberOp, PairRankOp,
              ProgramsOp, ProgramOp>();
  return table;
}

} // namespace

Action refuse(Operation *op, const Twine &why) {
  op->emitOpError() << "cannot run on threads: " << why;
  return nullptr;
}

std::vector<char> elementBytes(Attribute value, DType dtype) {
  if (auto dense = dyn_cast<DenseElementsAttr>(value))
    value = dense.getSplatValue<Attribute>();
  llvm::APInt bits = isa<FloatAttr>(value) ? cast<FloatAttr>(value).getValue().bitcastToAPInt()
                                           : cast<IntegerAttr>(value).getValue();
  std::uint64_t word = bits.zextOrTrunc(64).getZExtValue();
  std::vector<char> bytes(byteSize(dtype));
  std::memcpy(bytes.data(), &word, bytes.size());
  return bytes;
}

// --- places
// -----------------------------------------------------------------------------------------------------

LayoutTable::LayoutTable(const Layout &l, int threads)
    : layout(l), regs(l.numRegs()), threads(threads), coords(std::size_t(l.rank())), freeRegs(l.freeRegs()),
      freeLanes(l.freeLanes()), freeWarps(l.freeWarps()) {
  std::size_t count = std::size_t(regs) * std::size_t(threads);
  for (auto &c : coords)
    c.reserve(count);
  linear.reserve(count);
  std::vector<Coords> ofThread;
  for (int t = 0; t < threads; ++t)
    ofThread.push_back(l.threadCoords(t % warpSize, t / warpSize));
  for (int r = 0; r < regs; ++r) {
    Coords ofReg = l.regCoords(r);
    for (int t = 0; t < threads; ++t) {
      std::int32_t n = 0;
      for (int d = 0; d < l.rank(); ++d) {
        std::int32_t core = ofReg[d] % l.core()[d];
        std::int32_t c = (core ^ ofThread[std::size_t(t)][d]) + (ofReg[d] - core);
        coords[std::size_t(d)].push_back(c);
        n = n * l.dim(d) + c;
      }
      linear.push_back(n);
    }
  }
}

const LayoutTable *Program::table(const Layout &layout) {
  auto &entry = tables[layout.toString()];
  if (!entry)
    entry = std::make_unique<LayoutTable>(layout, threads);
  return entry.get();
}

Slot Program::slotFor(Type type) {
  Slot s;
  s.dtype = *dtypeOfType(elementOf(type));
  s.size = std::int64_t(byteSize(s.dtype));
  if (auto layout = layoutOf(type)) {
    s.table = table(*layout);
    s.count = std::int64_t(s.table->regs) * threads;
  }
  s.offset = valueBytes;
  valueBytes += std::int64_t(llvm::alignTo(std::uint64_t(s.count * s.size), 64));
  return s;
}

SmallVector<Slot> Program::slotsOf(ValueRange values) const {
  SmallVector<Slot> result;
  for (Value v : values)
    result.push_back(slot(v));
  return result;
}

int Program::count(Operation *op) {
  counted.push_back({op});
  return int(counted.size()) - 1;
}

const Target *Program::target() const {
  auto name = mlir::func::FuncOp(func)->getAttrOfType<StringAttr>(targetAttr);
  return name ? findTarget(std::string_view(name.getValue())) : nullptr;
}

// --- functions, loops, branches
// ---------------------------------------------------------------------------------

bool Program::decode(func::FuncOp f) {
  func = f;
  auto launch = f->getAttrOfType<LaunchAttr>(launchAttr);
  if (!launch || !llvm::hasSingleElement(f.getBody())) {
    f.emitOpError() << "is not in final tgpu form: it has no launch geometry, or several blocks";
    return false;
  }
  blocks = int(launch.getCluster());
  warps = int(launch.allWarps());
  threads = warps * warpSize;
  sharedBytes = launch.getSharedBytes();
  // No access meets less than the smallest element, and none lies across a multiple of it.
  sharedGrain = 16;
  f.walk([&](BufferAllocOp op) {
    std::int64_t size = std::int64_t(byteSize(*dtypeOfType(op.getBuffer().getType().getElementType())));
    sharedGrain = std::min(sharedGrain, size);
    if (op.getOffset())
      sharedGrain = std::gcd(sharedGrain, std::int64_t(*op.getOffset()));
  });
  f.walk([&](PipeCreateOp op) {
    for (BufferType buffer : op.getPipe().getType().getBuffers())
      sharedGrain = std::min(sharedGrain, std::int64_t(byteSize(*dtypeOfType(buffer.getElementType()))));
  });
  f.walk([&](WgmmaOp) { hasProducts = true; });
  persistent = f->hasAttr(persistentAttr);
  pairs = f->hasAttr(pairAttr);
  if (auto attr = f->getAttrOfType<DenseI64ArrayAttr>(programOrderAttr))
    order.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
  sharedBytes = std::int64_t(llvm::alignTo(std::uint64_t(sharedBytes), std::uint64_t(sharedGrain)));
  for (BlockArgument arg : f.getArguments()) {
    if (isa<tileir::TensorType>(arg.getType()))
      viewOfArgument.push_back(defineView(arg));
    else
      scalarArguments.push_back({define(arg), int(arg.getArgNumber())});
  }
  return block(f.getBody().front());
}

bool Program::block(mlir::Block &b) {
  return llvm::all_of(b, [&](Operation &op) {
    return op.hasTrait<OpTrait::IsTerminator>() || operation(&op);
  });
}

bool Program::operation(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return forLoop(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return whileLoop(loop);
  if (auto choice = dyn_cast<scf::IfOp>(op))
    return branch(choice);
  if (auto both = dyn_cast<RolesOp>(op))
    return roles(both);
  for (Type t : llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                         llvm::to_vector(op->getResultTypes()))) {
    auto layout = layoutOf(t);
    if (isa<RankedTensorType>(t) && (!layout || layout->numWarps() != warps))
      return bool(refuse(op, say("a tile has no layout for ", warps, " warps")));
  }
  auto maker = makers().find(op->getName().getTypeID());
  if (maker == makers().end())
    return bool(refuse(op, "no op of final tgpu form"));
  Action action = maker->second(*this, op);
  if (!action)
    return false;
  SmallVector<Slot> tiles; // that must be ready
  if (hasProducts && !isa<WgmmaWaitOp>(op))
    for (OpOperand &operand : op->getOpOperands()) {
      auto product = dyn_cast<WgmmaOp>(op);
      if (layoutOf(operand.get().getType()) && !(product && &operand == &product.getAccMutable()))
        tiles.push_back(slot(operand.get()));
    }
  if (tiles.empty())
    actions.push_back(std::move(action));
  else
    actions.push_back([=, action = std::move(action)](Cluster &b) {
      if (b.ready(op, tiles))
        action(b);
    });
  return true;
}

void Program::transfer(ValueRange from, ArrayRef<Slot> to) {
  SmallVector<Slot> source = slotsOf(from);
  std::int64_t bytes = 0;
  for (const Slot &s : to)
    bytes += s.count * s.size;
  bool overlap = llvm::any_of(source, [&](const Slot &s) {
    return llvm::any_of(to, [&](const Slot &t) { return s.offset == t.offset; });
  });
  SmallVector<Slot> target(to);
  if (hasProducts) // results under way stay so
    actions.push_back([=](Cluster &b) {
      SmallVector<std::shared_ptr<ProductGroup>> groups;
      for (const Slot &s : source) {
        auto found = b.unready.find(s.offset);
        groups.push_back(found == b.unready.end() ? nullptr : found->second);
      }
      for (auto [t, group] : llvm::zip_equal(target, groups))
        if (group)
          b.unready[t.offset] = group;
        else
          b.unready.erase(t.offset);
    });
  if (!overlap) {
    actions.push_back([=](Cluster &b) {
      for (auto [s, t] : llvm::zip_equal(source, target))
        std::memcpy(b.data(t), b.data(s), std::size_t(s.count * s.size));
    });
    return;
  }
  actions.push_back([=](Cluster &b) {
    std::vector<char> all;
    all.reserve(std::size_t(bytes));
    for (const Slot &s : source)
      all.insert(all.end(), b.data(s), b.data(s) + s.count * s.size);
    const char *at = all.data();
    for (const Slot &t : target) {
      std::memcpy(b.data(t), at, std::size_t(t.count * t.size));
      at += t.count * t.size;
    }
  });
}

bool Program::forLoop(scf::ForOp op) {
  Slot lo = slot(op.getLowerBound()), hi = slot(op.getUpperBound()), step = slot(op.getStep());
  Slot i = define(op.getInductionVar());
  SmallVector<Slot> carried, results;
  for (Value v : op.getRegionIterArgs())
    carried.push_back(define(v));
  for (Value v : op.getResults())
    results.push_back(define(v));
  transfer(op.getInitArgs(), carried);
  actions.push_back([=](Cluster &b) { b.set(i, b.index(lo)); });
  int test = int(actions.size());
  actions.emplace_back();
  if (!block(*op.getBody()))
    return false;
  transfer(op.getYieldedValues(), carried);
  actions.push_back([=](Cluster &b) {
    b.set(i, b.index(i) + b.index(step));
    b.next = test;
  });
  int end = int(actions.size());
  actions[std::size_t(test)] = [=](Cluster &b) {
    if (b.index(i) >= b.index(hi))
      b.next = end;
  };
  transfer(op.getRegionIterArgs(), results);
  return true;
}

bool Program::whileLoop(scf::WhileOp op) {
  SmallVector<Slot> before, after, results;
  for (Value v : op.getBeforeArguments())
    before.push_back(define(v));
  for (Value v : op.getAfterArguments())
    after.push_back(define(v));
  for (Value v : op.getResults())
    results.push_back(define(v));
  transfer(op.getInits(), before);
  int start = int(actions.size());
  if (!block(*op.getBeforeBody()))
    return false;
  scf::ConditionOp condition = op.getConditionOp();
  Slot more = slot(condition.getCondition());
  transfer(condition.getArgs(), after);
  int test = int(actions.size());
  actions.emplace_back();
  if (!block(*op.getAfterBody()))
    return false;
  transfer(op.getYieldOp().getOperands(), before);
  actions.push_back([=](Cluster &b) { b.next = start; });
  int end = int(actions.size());
  actions[std::size_t(test)] = [=](Cluster &b) {
    if (!b.scalar<bool>(more))
      b.next = end;
  };
  transfer(op.getAfterArguments(), results);
  return true;
}

bool Program::roles(RolesOp op) {
  if (blocks > 1)
    return bool(refuse(op, "roles do not run on clusters"));
  int first = int(actions.size());
  actions.emplace_back();
  if (!block(op.getProducer().front()))
    return false;
  int consumer = int(actions.size());
  if (!block(op.getConsumer().front()))
    return false;
  int end = int(actions.size());
  actions[std::size_t(first)] = [=, op = op.getOperation()](Cluster &b) {
    b.runRoles(op, first + 1, consumer, end);
  };
  return true;
}

bool Program::branch(scf::IfOp op) {
  Slot condition = slot(op.getCondition());
  SmallVector<Slot> results;
  for (Value v : op.getResults())
    results.push_back(define(v));
  int test = int(actions.size());
  actions.emplace_back();
  if (!block(*op.thenBlock()))
    return false;
  transfer(op.thenYield().getOperands(), results);
  int skip = int(actions.size());
  actions.emplace_back();
  int otherwise = int(actions.size());
  if (op.elseBlock()) {
    if (!block(*op.elseBlock()))
      return false;
    transfer(op.elseYield().getOperands(), results);
  }
  int end = int(actions.size());
  actions[std::size_t(skip)] = [=](Cluster &b) { b.next = end; };
  actions[std::size_t(test)] = [=](Cluster &b) {
    if (!b.scalar<bool>(condition))
      b.next = otherwise;
  };
  return true;
}

} // namespace sectile::tgpu::exec
