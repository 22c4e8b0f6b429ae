// SPDX-License-Identifier: Apache-2.0
/// \file Operands by copies of the producer's threads (PTX ISA, cp.async).
///
/// Per load a thread has one pointer, which it moves on from row to row by distances that are the same for all threads, and
/// one place in shared memory, from which all others are constant distances: rows of a step are a multiple of what swizzles
/// look at, or come in two kinds. Whether a row exists is compared in front of its copy, so that nothing per copy stays in a
/// register over the loop around the load.
#include "codegen/EmitContext.h"
#include "ir/CopyPlan.h"
#include "ir/base/LaunchExpr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <limits>

namespace sectile::codegen {

llvm::Value *EmitContext::launchValue(llvm::StringRef text) {
  auto e = LaunchExpr::parse(std::string_view(text));
  if (!e)
    return nullptr;
  Builder::InsertPointGuard guard(b);
  b.SetInsertPoint(setupEnd);
  std::span<const LaunchExpr::Node> rest = e->prefix();
  using Op = LaunchExpr::Op;
  auto saturated = [&](llvm::Intrinsic::ID id, llvm::Value *x, llvm::Value *y) { return b.CreateBinaryIntrinsic(id, x, y); };
  auto value = [&](auto &self) -> llvm::Value * {
    const LaunchExpr::Node n = rest.front();
    rest = rest.subspan(1);
    switch (n.op) {
    case Op::Constant:
      return i64(n.value);
    case Op::Dim:
      return view(func.getArgument(unsigned(n.value))).dims[std::size_t(n.axis)];
    case Op::Arg:
      return b.CreateSExt(scalar(func.getArgument(unsigned(n.value))), b.getInt64Ty());
    default:
      break;
    }
    llvm::Value *x = self(self), *y = self(self);
    auto truth = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
    switch (n.op) {
    case Op::Min:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
    case Op::Max:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
    case Op::Add:
      return saturated(llvm::Intrinsic::sadd_sat, x, y);
    case Op::Sub:
      return saturated(llvm::Intrinsic::ssub_sat, x, y);
    case Op::Mul: {
      llvm::Value *both = b.CreateBinaryIntrinsic(llvm::Intrinsic::smul_with_overflow, x, y);
      llvm::Value *negative = b.CreateICmpSLT(b.CreateXor(x, y), i64(0));
      llvm::Value *end = b.CreateSelect(negative, i64(std::numeric_limits<std::int64_t>::min()),
                                        i64(std::numeric_limits<std::int64_t>::max()));
      return b.CreateSelect(b.CreateExtractValue(both, 1), end, b.CreateExtractValue(both, 0));
    }
    case Op::Lt:
      return truth(b.CreateICmpSLT(x, y));
    case Op::Le:
      return truth(b.CreateICmpSLE(x, y));
    case Op::Eq:
      return truth(b.CreateICmpEQ(x, y));
    default:
      return b.CreateSelect(b.CreateICmpNE(x, i64(0)), y, self(self));
    }
  };
  return value(value);
}

/// The copies of one load.
class AsyncCopies {
public:
  AsyncCopies(EmitContext &e, tgpu::AsyncLoadOp op, const tgpu::CopyPlan &plan)
      : e(e), b(e.b), op(op), plan(plan), map(op.getMap()), buffer(op.getPipe().getType().getBuffers()[op.getIndex()]),
        size(std::int64_t(byteSize(e.dtype(op.getX().getType())))), copyBytes(std::int64_t(op.getCopyBytes())),
        rowBytes(map.getBox()[0] * size), fastest(std::size_t(map.getOrder()[0])), view(e.view(op.getX())) {}

  mlir::LogicalResult emit() {
    llvm::Value *of = b.CreateAnd(e.thread, e.i32(tgpu::copyThreads - 1)); // producers come behind whole warpgroups
    row = b.CreateUDiv(of, e.i32(plan.pieces));
    piece = b.CreateURem(of, e.i32(plan.pieces));
    for (mlir::Value offset : op.getOffsets())
      first.push_back(b.CreateTrunc(e.scalar(offset), b.getInt32Ty()));
    for (mlir::Attribute text : map.getLimits()) {
      llvm::Value *limit = e.axisLimit(llvm::cast<mlir::StringAttr>(text).getValue(), view, limits.size());
      if (!limit)
        return e.bug(op, "a limit is no expression");
      limits.push_back(limit);
    }
    rows();
    columns();
    placesInShared();
    if (isWhole()) {
      copies(false);
      return mlir::success();
    }
    // Pieces are cut in the last box of a row alone: all others go by fewer instructions.
    const std::int64_t length = plan.panels * map.getBox()[0];
    llvm::BasicBlock *inside = e.newBlock("inside"), *cut = e.newBlock("cut"), *copied = e.newBlock("copied");
    b.CreateCondBr(b.CreateICmpULE(b.CreateAdd(first[fastest], e.i32(length)), limits[fastest]), inside, cut);
    b.SetInsertPoint(inside);
    copies(false);
    b.CreateBr(copied);
    b.SetInsertPoint(cut);
    copies(true);
    b.CreateBr(copied);
    b.SetInsertPoint(copied);
    return mlir::success();
  }

private:
  void copies(bool mayCut) {
    llvm::Value *from = pointer;
    llvm::SmallVector<llvm::Value *> bytes;
    for (std::int64_t panel = 0; panel < plan.panels && mayCut; ++panel)
      bytes.push_back(b.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, b.CreateMul(b.CreateSub(limits[fastest], columnOf(panel)), e.i32(size)), e.i32(copyBytes)));
    for (std::int64_t step = 0; step < plan.steps; ++step) {
      if (step > 0)
        from = b.CreateGEP(b.getInt8Ty(), from, distance(step));
      llvm::Value *lefts = leftOf(step);
      for (std::int64_t panel = 0; panel < plan.panels; ++panel)
        copy(step, panel, from, b.CreateSelect(inPanel[std::size_t(panel)], lefts, e.i32(std::numeric_limits<std::int32_t>::min())),
             mayCut ? bytes[std::size_t(panel)] : nullptr);
    }
  }

  /// Where the thread's piece of a panel lies along the axis of stride 1.
  llvm::Value *columnOf(std::int64_t panel) {
    return b.CreateAdd(b.CreateAdd(first[fastest], b.CreateMul(piece, e.i32(copyBytes / size))), e.i32(panel * map.getBox()[0]));
  }

  bool isLong(std::size_t axis) const {
    return llvm::any_of(plan.axes, [&](const tgpu::CopyPlan::Axis &a) { return std::size_t(a.axis) == axis; });
  }
  /// All steps have the same coordinate along this axis.
  static bool isFixed(const tgpu::CopyPlan::Axis &a) {
    return llvm::all_of(a.first, [&](std::int64_t f) { return f == a.first[0]; });
  }

  /// The thread's row in the first step, and what is known of it for all steps.
  void rows() {
    llvm::Value *at = e.i64(0);
    auto step = [&](std::size_t d, llvm::Value *coordinate) {
      at = b.CreateAdd(at, b.CreateMul(b.CreateSExt(coordinate, b.getInt64Ty()), view.strides[d]));
    };
    std::int64_t moving = 0;
    for (const tgpu::CopyPlan::Axis &a : plan.axes)
      moving += !isFixed(a);
    for (std::size_t d = 0; d < first.size(); ++d)
      if (d != fastest && !isLong(d)) {
        step(d, first[d]);
        require(b.CreateICmpULT(first[d], limits[d]));
      }
    for (const tgpu::CopyPlan::Axis &a : plan.axes) {
      const auto d = std::size_t(a.axis);
      llvm::Value *place = b.CreateUDiv(row, e.i32(a.divisor));
      if (a.modulus)
        place = b.CreateURem(place, e.i32(a.modulus));
      place = b.CreateAdd(first[d], place);
      step(d, place);
      if (isFixed(a))
        require(b.CreateICmpULT(place, limits[d]));
      else if (moving == 1 && e.indexFacts.nonNegative(op.getOffsets()[d]))
        left = b.CreateSub(limits[d], place);
      else
        compared.push_back({&a, place});
    }
    at = b.CreateAdd(at, b.CreateSExt(b.CreateAdd(first[fastest], b.CreateMul(piece, e.i32(copyBytes / size))), b.getInt64Ty()));
    pointer = b.CreateGEP(b.getInt8Ty(), view.pointer, b.CreateMul(at, e.i64(size)));
  }

  void require(llvm::Value *holds) { always = always ? b.CreateAnd(always, holds) : holds; }

  /// More than `reach(step)`: the thread's row of that step exists. i32.
  llvm::Value *leftOf(std::int64_t step) {
    llvm::Value *value = left ? left : e.i32(std::numeric_limits<std::int32_t>::max());
    llvm::Value *exists = nullptr;
    for (auto [axis, place] : compared) {
      llvm::Value *in = b.CreateICmpULT(b.CreateAdd(place, e.i32(axis->first[std::size_t(step)])), limits[std::size_t(axis->axis)]);
      exists = exists ? b.CreateAnd(exists, in) : in;
    }
    return exists ? b.CreateSelect(exists, value, e.i32(std::numeric_limits<std::int32_t>::min())) : value;
  }
  std::int64_t reach(std::int64_t step) const {
    if (left)
      for (const tgpu::CopyPlan::Axis &a : plan.axes)
        if (!isFixed(a))
          return a.first[std::size_t(step)];
    return 0;
  }

  /// From the row of the step before, in bytes, the same for all threads.
  llvm::Value *distance(std::int64_t step) {
    llvm::Value *sum = e.i64(0);
    for (const tgpu::CopyPlan::Axis &a : plan.axes)
      if (std::int64_t by = a.first[std::size_t(step)] - a.first[std::size_t(step - 1)])
        sum = b.CreateAdd(sum, b.CreateMul(view.strides[std::size_t(a.axis)], e.i64(by * size)));
    return sum;
  }

  /// Per panel: whether the thread's piece exists along the axis of stride 1.
  void columns() {
    for (std::int64_t panel = 0; panel < plan.panels; ++panel) {
      llvm::Value *in = b.CreateICmpULT(columnOf(panel), limits[fastest]);
      inPanel.push_back(always ? b.CreateAnd(in, always) : in);
    }
  }

  /// No piece is cut: the limit is a multiple of its elements.
  bool isWhole() {
    const std::int64_t together = copyBytes / size;
    if (together == 1)
      return true;
    const llvm::StringRef text = llvm::cast<mlir::StringAttr>(map.getLimits()[fastest]).getValue();
    auto divides = [&](unsigned arg, std::size_t axis) {
      auto divisors = e.func.getArgAttrOfType<mlir::DenseI64ArrayAttr>(arg, tileir::dimDivAttr);
      return divisors && std::int64_t(axis) < divisors.size() && divisors[std::int64_t(axis)] % together == 0;
    };
    // The smaller of lengths and constants, each a multiple.
    auto expression = LaunchExpr::parse(std::string_view(text));
    bool whole = divides(llvm::cast<mlir::BlockArgument>(op.getX()).getArgNumber(), fastest);
    for (const LaunchExpr::Node &n : expression->prefix())
      whole = whole && (n.op == LaunchExpr::Op::Min || n.op == LaunchExpr::Op::Max || n.op == LaunchExpr::Op::Add ||
                        n.op == LaunchExpr::Op::Sub || (n.op == LaunchExpr::Op::Constant && n.value % together == 0) ||
                        (n.op == LaunchExpr::Op::Dim && divides(unsigned(n.value), std::size_t(n.axis))));
    return whole;
  }

  /// The place of the thread's piece in the buffer, for each kind of step.
  void placesInShared() {
    llvm::Value *start = e.sharedAddress(e.bufferToFill(op.getPipe(), unsigned(op.getIndex())));
    llvm::Value *inRow = b.CreateMul(piece, e.i32(copyBytes));
    inRow = b.CreateXor(inRow, swizzleOf(row));
    llvm::Value *ofRow = b.CreateMul(row, e.i32(rowBytes));
    for (std::int64_t step = 0; step < plan.steps; ++step) {
      const std::int64_t kind = swizzleOf(step * plan.rowsPerStep);
      llvm::Value *&place = places[kind];
      if (!place)
        place = b.CreateAdd(start, b.CreateAdd(ofRow, b.CreateXor(inRow, e.i32(kind))));
    }
  }
  /// What the swizzle adds, without carries, to the place of a row's pieces, in bytes.
  std::int64_t swizzleOf(std::int64_t rowNumber) const {
    std::int64_t x = 0;
    for (auto [bit, mask] : llvm::enumerate(masks()))
      x ^= rowNumber >> bit & 1 ? mask * size : 0;
    return x;
  }
  llvm::Value *swizzleOf(llvm::Value *rowNumber) {
    llvm::Value *x = e.i32(0);
    for (auto [bit, mask] : llvm::enumerate(masks()))
      x = b.CreateXor(x, b.CreateMul(b.CreateAnd(b.CreateLShr(rowNumber, e.i32(std::int64_t(bit))), e.i32(1)), e.i32(mask * size)));
    return x;
  }
  llvm::ArrayRef<std::int64_t> masks() const {
    llvm::ArrayRef<std::int64_t> swizzle = buffer.getSwizzle();
    return swizzle.empty() ? swizzle : swizzle.drop_front(2);
  }

  /// `bytesThere`: how much of the piece exists; null: all of it, or nothing.
  void copy(std::int64_t step, std::int64_t panel, llvm::Value *pointer, llvm::Value *lefts, llvm::Value *bytesThere) {
    const std::int64_t firstRow = step * plan.rowsPerStep;
    llvm::Value *to = b.CreateAdd(places[swizzleOf(firstRow)], e.i32((panel * plan.rows + firstRow) * rowBytes));
    llvm::Value *from = b.CreateGEP(b.getInt8Ty(), pointer, e.i32(panel * rowBytes));
    const std::string bytes = std::to_string(copyBytes);
    // Neighbouring pieces of a row come in the next iterations: whole lines go to the L2 cache.
    const std::string instruction = std::string("cp.async.") + (copyBytes == 16 ? "cg" : "ca") + ".shared.global.L2::128B [$0], [$1], " + bytes;
    // The last step may have fewer rows than threads for them.
    const bool cut = firstRow + plan.rowsPerStep > plan.rows;
    std::string text = "{ .reg .pred P, Q; .reg .b32 S; setp.le.s32 P, $2, " + std::to_string(reach(step)) + "; ";
    std::string constraints = "r,l,r";
    llvm::SmallVector<llvm::Value *> operands{to, from, lefts};
    if (cut) {
      text += "setp.lt.u32 Q, $3, " + std::to_string(plan.rows - firstRow) + "; ";
      constraints += ",r";
      operands.push_back(row);
    }
    const std::string guard = cut ? "@Q " : "";
    if (!bytesThere) {
      text += guard + instruction + ", P; }";
    } else {
      text += "selp.b32 S, 0, $" + std::to_string(operands.size()) + ", P; " + guard + instruction + ", S; }";
      constraints += ",r";
      operands.push_back(bytesThere);
    }
    e.assembly(text, constraints + ",~{memory}", operands);
  }

  EmitContext &e;
  Builder &b;
  tgpu::AsyncLoadOp op;
  const tgpu::CopyPlan &plan;
  tgpu::MapAttr map;
  tgpu::BufferType buffer;
  const std::int64_t size, copyBytes, rowBytes; ///< bytes of an element, a copy, a row of a panel
  const std::size_t fastest;                    ///< the axis of stride 1
  const View view;
  llvm::Value *row = nullptr, *piece = nullptr; ///< of the thread, in the first step
  llvm::SmallVector<llvm::Value *> first, limits; ///< per axis of the tensor: where the box starts, where elements end
  llvm::Value *pointer = nullptr;                 ///< the thread's piece of the first step in the first panel
  llvm::Value *always = nullptr;                  ///< without which no row of the thread exists; null: nothing
  llvm::Value *left = nullptr; ///< rows that exist from the thread's first one on, if it is one axis that steps go along
  llvm::SmallVector<std::pair<const tgpu::CopyPlan::Axis *, llvm::Value *>> compared; ///< others, with the first step's place
  llvm::SmallVector<llvm::Value *> inPanel;
  std::map<std::int64_t, llvm::Value *> places; ///< by what the swizzle adds
};

mlir::LogicalResult EmitContext::emitAsyncLoad(tgpu::AsyncLoadOp op) {
  auto plan = tgpu::CopyPlan::make(op.getMap(), op.getPipe().getType().getBuffers()[op.getIndex()], std::int64_t(op.getCopyBytes()));
  if (!plan || !llvm::isa<mlir::BlockArgument>(op.getX()))
    return bug(op, "threads cannot share its copies");
  return AsyncCopies(*this, op, *plan).emit();
}

mlir::LogicalResult EmitContext::emitAsyncArrive(tgpu::AsyncArriveOp op) {
  assembly("cp.async.mbarrier.arrive.noinc.shared.b64 [$0];", "r,~{memory}", {fullBarrier(op.getPipe())});
  return mlir::success();
}

} // namespace sectile::codegen
