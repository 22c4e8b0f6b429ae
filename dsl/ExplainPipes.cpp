// SPDX-License-Identifier: Apache-2.0
#include "dsl/ExplainPipes.h"

#include "dsl/Diagnostics.h"
#include "ir/base/MmaTable.h"
#include "ir/base/TargetRates.h"
#include "passes/Remarks.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
namespace {

using mlir::Operation;
using mlir::Value;

/// The innermost loop around an op; null if that is the one over programs, or there is none.
Operation *loopOf(Operation *op) {
  Operation *loop = op->getParentOp();
  while (loop && !llvm::isa<mlir::scf::ForOp, mlir::scf::WhileOp>(loop))
    loop = loop->getParentOp();
  auto counted = llvm::dyn_cast_if_present<mlir::scf::ForOp>(loop);
  return counted && !counted.getBody()->getOps<tgpu::ProgramOp>().empty() ? nullptr : loop;
}

DType dtypeOf(mlir::Type element) { return *tileir::dtypeOfType(element); }

/// About how many instructions an element takes, as ir/base has the algorithms.
double instructionsOf(Operation *op) {
  using tileir::BinaryFn;
  using tileir::UnaryFn;
  if (auto unary = llvm::dyn_cast<tileir::UnaryOp>(op))
    switch (unary.getFn()) {
    case UnaryFn::k_exp:
    case UnaryFn::k_exp2:
      return 6;
    case UnaryFn::k_sigmoid:
      return 8;
    case UnaryFn::k_tanh:
    case UnaryFn::k_erf:
    case UnaryFn::k_log:
    case UnaryFn::k_log2:
    case UnaryFn::k_sin:
    case UnaryFn::k_cos:
      return 20;
    default:
      return 1;
    }
  if (auto binary = llvm::dyn_cast<tileir::BinaryOp>(op))
    return binary.getFn() == BinaryFn::k_div ? 9 : 1;
  return llvm::isa<tileir::CompareOp, tileir::SelectOp, tileir::FmaOp, tileir::CastOp, tgpu::FillOutsideOp>(op) ? 1 : 0;
}

class ProductExplainer {
public:
  ProductExplainer(mlir::func::FuncOp func, const tgpu::ExecResult &result,
                   const llvm::DenseMap<Operation *, std::size_t> &accesses, Explanation &out)
      : func(func), result(result), accesses(accesses), out(out) {}

  void run() {
    func.walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](tgpu::WgmmaOp o) { wgmma(o); })
          .Case([&](tgpu::MmaSyncOp o) {
            ExplainedProduct &p = add(o, o.getA().getType(), o.getB().getType(), o.getType());
            const MmaRow *row = atom(p, o.getAtom());
            p.instructions = p.m / row->m * (p.n / row->n) * (p.k / row->k);
            p.placeA = p.placeB = "registers";
          })
          .Case([&](tgpu::MmaFmaOp o) {
            ExplainedProduct &p = add(o, o.getA().getType(), o.getB().getType(), o.getType());
            p.placeA = p.placeB = "shared, element by element";
          })
          .Case([&](tgpu::PipeCreateOp o) { pipe(o); })
          .Case([&](tgpu::RolesOp o) {
            out.roles = {{"producer", out.producers, static_cast<std::int64_t>(o.getProducerRegs())},
                         {"consumers", out.warps, static_cast<std::int64_t>(o.getConsumerRegs())}};
          });
    });
    arithmetic();
    for (const passes::Remark &r : passes::remarksOf(func))
      out.decisions.push_back({r.pass, sourceLocOf(r.at), r.text});
  }

private:
  /// @pre shapes are [M, K], [K, N], [M, N] but for buffers, whose K and N the caller sets
  ExplainedProduct &add(Operation *op, mlir::Type a, mlir::Type b, mlir::Type c) {
    auto element = [](mlir::Type t) {
      auto buffer = llvm::dyn_cast<tgpu::BufferType>(t);
      return dtypeOf(buffer ? buffer.getElementType() : tileir::elementOf(t));
    };
    auto shape = [](mlir::Type t) {
      auto buffer = llvm::dyn_cast<tgpu::BufferType>(t);
      return buffer ? llvm::ArrayRef<std::int64_t>(buffer.getShape()) : tileir::shapeOf(t);
    };
    ExplainedProduct p;
    p.op = op->getName().stripDialect().str();
    p.at = sourceLocOf(op->getLoc());
    p.m = tileir::shapeOf(c)[0];
    p.n = tileir::shapeOf(c)[1];
    p.k = shape(a).back();
    p.a = element(a);
    p.b = element(b);
    p.c = element(c);
    p.inLoop = loopOf(op) != nullptr;
    if (const tgpu::OpCounts *counts = result.of(op))
      p.runs = counts->runs;
    opOf.push_back(op);
    out.products.push_back(std::move(p));
    return out.products.back();
  }

  static const MmaRow *atom(ExplainedProduct &p, tgpu::AtomAttr attr) {
    const MmaRow *row = findMma(std::string_view(attr.getName()));
    p.instruction = row->name;
    p.tf32 = row->policyOnly;
    return row;
  }

  void wgmma(tgpu::WgmmaOp op) {
    ExplainedProduct &p = add(op, op.getA().getType(), op.getB().getType(), op.getType());
    const MmaRow *row = atom(p, op.getAtom());
    auto b = op.getB().getType();
    p.k = op.getBMn() ? b.getShape()[1] : b.getShape()[0] * b.getShape()[2];
    const bool shared = llvm::isa<tgpu::BufferType>(op.getA().getType());
    p.placeA = !shared ? "registers" : op.getAMn() ? "shared, M-major" : "shared, K-major";
    p.placeB = op.getBMn() ? "shared, N-major" : "shared, K-major";
    p.instructions = p.m / row->m * (p.n / row->n) * (p.k / row->k);
    // 64 x n with 32 bytes of K: n / 2 clocks on all four tensor cores of a multiprocessor.
    p.tensorClocks = p.instructions * row->n / 2;
    const auto kBytes = static_cast<std::int64_t>(row->k * byteSize(p.a));
    p.sharedBytes = p.instructions * kBytes * ((shared ? row->m : 0) + row->n);
  }

  void pipe(tgpu::PipeCreateOp op) {
    tgpu::PipeType type = op.getPipe().getType();
    ExplainedPipe p;
    p.stages = type.getStages();
    p.slotBytes = type.slotBytes();
    for (tgpu::BufferType buffer : type.getBuffers())
      p.dataBytes += buffer.bytes();
    p.offset = static_cast<std::int64_t>(op.getOffset().value_or(0));
    p.barriers = static_cast<std::int64_t>(op.getBarriers().value_or(0));
    p.consumers = static_cast<std::int64_t>(op.getEmpty());
    p.at = sourceLocOf(op->getLoc());
    const std::string into = "pipe " + std::to_string(out.pipes.size());
    for (Operation *user : op->getUsers())
      if (llvm::isa<tgpu::TmaLoadOp, tgpu::AsyncLoadOp>(user))
        if (auto found = accesses.find(user); found != accesses.end()) {
          p.loads.push_back(found->second);
          out.accesses[found->second].note += ", into " + into;
        }
    std::sort(p.loads.begin(), p.loads.end());
    ExplainedBuffer buffer;
    buffer.use = into + ", " + std::to_string(p.stages) + " slots";
    buffer.first = buffer.last = p.at;
    buffer.bytes = p.stages * p.slotBytes;
    buffer.offset = p.offset;
    buffer.whole = true;
    out.buffers.push_back(buffer);
    buffer.use = "barriers of " + into;
    buffer.bytes = type.barrierBytes();
    buffer.offset = p.barriers;
    out.buffers.push_back(buffer);
    out.pipes.push_back(std::move(p));
  }

  /// What threads compute beside asynchronous products.
  void arithmetic() {
    llvm::DenseMap<Operation *, std::int64_t> trips; ///< of loops with products, in all programs
    bool hasProducts = false;
    for (auto [i, op] : llvm::enumerate(opOf)) {
      if (!llvm::isa<tgpu::WgmmaOp>(op))
        continue;
      hasProducts = true;
      if (Operation *loop = loopOf(op))
        trips[loop] = std::max(trips[loop], out.products[i].runs);
    }
    if (!hasProducts || out.programs == 0)
      return;
    func.walk([&](Operation *op) {
      const double each = instructionsOf(op);
      if (each == 0 || op->getNumResults() != 1)
        return;
      auto layout = tgpu::layoutOf(op->getResult(0).getType());
      if (!layout)
        return;
      Operation *loop = loopOf(op);
      if (loop && !trips.count(loop))
        return;
      const double perProgram =
          loop ? static_cast<double>(trips[loop]) / static_cast<double>(out.programs) : 1;
      std::optional<ExplainedArithmetic> &sum = loop ? out.inLoop : out.epilogue;
      const SourceLoc at = sourceLocOf(op->getLoc());
      if (!sum)
        sum = ExplainedArithmetic{0, at, at};
      sum->clocks += perProgram * each * layout->numRegs() * static_cast<double>(out.warps * out.target->warpSize) /
                     lanesPerClock;
      sum->last = at;
    });
  }

  mlir::func::FuncOp func;
  const tgpu::ExecResult &result;
  const llvm::DenseMap<Operation *, std::size_t> &accesses;
  Explanation &out;
  std::vector<Operation *> opOf; ///< of the products
};

} // namespace

void explainProducts(mlir::func::FuncOp func, const tgpu::ExecResult &result,
                     const llvm::DenseMap<Operation *, std::size_t> &accesses, Explanation &out) {
  ProductExplainer(func, result, accesses, out).run();
}

} // namespace sectile
