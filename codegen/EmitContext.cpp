// SPDX-License-Identifier: Apache-2.0
/// \file Types, values and thread geometry of an emission.
#include "codegen/EmitContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace sectile::codegen {

EmitContext::EmitContext(llvm::Module &module, const Target &target, mlir::func::FuncOp func,
                         tgpu::LaunchAttr launch)
    : mod(module), target(target), func(func), warps(int(launch.getWarps())),
      cluster(int(launch.getCluster())), bytesOfBlock(launch.getSharedBytes()), ctx(module.getContext()), b(module.getContext()) {}

mlir::LogicalResult EmitContext::bug(mlir::Operation *op, const llvm::Twine &what) {
  return op->emitError() << "code generation: " << what << " (a fault of the compiler, not of the kernel)";
}

llvm::Type *EmitContext::elementLlvm(DType t) {
  switch (t) {
  case DType::f64:
    return b.getDoubleTy();
  case DType::f32:
    return b.getFloatTy();
  case DType::f16:
    return b.getHalfTy();
  case DType::bf16:
    return b.getBFloatTy();
  case DType::boolean:
    return b.getInt1Ty();
  default:
    return b.getIntNTy(unsigned(byteSize(t) * 8));
  }
}

DType EmitContext::dtype(mlir::Type t) {
  if (auto view = llvm::dyn_cast<tileir::TensorType>(t))
    t = view.getElementType();
  else if (auto buffer = llvm::dyn_cast<tgpu::BufferType>(t))
    t = buffer.getElementType();
  else
    t = tileir::elementOf(t);
  return tileir::dtypeOfType(t).value_or(DType::i32);
}

const Regs &EmitContext::regs(mlir::Value v) {
  auto it = values.find(v);
  assert(it != values.end() && "operand emitted after its use");
  return it->second;
}

View EmitContext::view(mlir::Value v) {
  const Regs &all = regs(v);
  size_t rank = (all.size() - 1) / 2;
  View r{all[0], {}, {}};
  r.dims.assign(all.begin() + 1, all.begin() + 1 + rank);
  r.strides.assign(all.begin() + 1 + rank, all.end());
  return r;
}

void EmitContext::set(mlir::Value v, Regs r) { values[v] = std::move(r); }

int EmitContext::numRegs(mlir::Type t) {
  if (auto view = llvm::dyn_cast<tileir::TensorType>(t))
    return int(1 + 2 * view.getRank());
  if (auto layout = tgpu::layoutOf(t))
    return layout->numRegs();
  return 1;
}

llvm::Constant *EmitContext::constantOf(mlir::Attribute value, DType t) {
  if (auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(value))
    value = dense.getSplatValue<mlir::Attribute>();
  if (auto f = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    if (t == DType::e4m3 || t == DType::e5m2 || isStorage(t))
      return llvm::ConstantInt::get(ctx, f.getValue().bitcastToAPInt().zext(8));
    return llvm::ConstantFP::get(ctx, f.getValue());
  }
  if (auto flag = llvm::dyn_cast<mlir::BoolAttr>(value))
    return b.getInt1(flag.getValue());
  return llvm::ConstantInt::get(ctx, llvm::cast<mlir::IntegerAttr>(value).getValue());
}

const Geometry &EmitContext::geometry(const Layout &l) {
  auto &slot = geometries[l];
  if (slot)
    return *slot;
  slot = std::make_unique<Geometry>();
  Geometry &g = *slot;
  g.layout = l;
  for (int r = 0; r < l.numRegs(); ++r)
    g.regs.push_back(l.regCoords(r));

  Builder::InsertPointGuard guard(b);
  b.SetInsertPoint(setupEnd);
  for (int d = 0; d < l.rank(); ++d) {
    std::uint32_t mask = 0, regMask = 0;
    bool threadsOverlap = false;
    llvm::Value *sum = i32(0);
    auto addBits = [&](llvm::Value *number, const std::vector<Coords> &bases) {
      for (size_t first = 0; first < bases.size();) {
        std::uint32_t v = std::uint32_t(bases[first][d]);
        size_t last = first + 1; // one past a run of bases v, 2v, 4v, ...
        std::uint32_t bits = v;
        if (v)
          while (last < bases.size() && std::uint32_t(bases[last][d]) == v << (last - first) &&
                 (v & (v - 1)) == 0)
            bits |= std::uint32_t(bases[last++][d]);
        if (v) {
          llvm::Value *field = b.CreateAnd(b.CreateLShr(number, i32(first)), i32((1 << (last - first)) - 1));
          llvm::Value *part = b.CreateMul(field, i32(v));
          bool overlap = (mask & bits) != 0;
          threadsOverlap |= overlap;
          sum = overlap ? b.CreateXor(sum, part) : b.CreateOr(sum, part);
          mask |= bits;
        }
        first = last;
      }
    };
    addBits(lane, l.lane());
    addBits(warp, l.warp());
    for (const Coords &basis : l.reg())
      regMask |= std::uint32_t(basis[d]);
    g.thread.push_back(sum);
    g.threadMask.push_back(mask);
    g.disjoint.push_back((mask & regMask) == 0);
  }
  return g;
}

llvm::Value *EmitContext::coordinate(const Geometry &g, int reg, int axis) {
  std::int32_t c = g.regs[size_t(reg)][axis];
  if (g.disjoint[size_t(axis)])
    return b.CreateAdd(g.thread[size_t(axis)], i32(c), "", /*NUW=*/true, /*NSW=*/true);
  std::int32_t core = c % g.layout.core()[axis];
  return b.CreateAdd(b.CreateXor(g.thread[size_t(axis)], i32(core)), i32(c - core));
}

llvm::Value *EmitContext::ownsElements(const Layout &l, bool perBlock, std::uint32_t others) {
  llvm::Value *owns = b.getTrue();
  if (std::uint32_t lanes = l.freeLanes() & ~others)
    owns = b.CreateICmpEQ(b.CreateAnd(lane, i32(lanes)), i32(0));
  std::uint32_t warpBits = l.freeWarps();
  if (perBlock)
    warpBits &= std::uint32_t(warps) - 1;
  if (warpBits)
    owns = b.CreateAnd(owns, b.CreateICmpEQ(b.CreateAnd(warp, i32(warpBits)), i32(0)));
  return owns;
}

bool EmitContext::ownsRegister(const Layout &l, int reg) { return (std::uint32_t(reg) & l.freeRegs()) == 0; }

} // namespace sectile::codegen
