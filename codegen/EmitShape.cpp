// SPDX-License-Identifier: Apache-2.0
/// \file Ops that only rename registers: broadcast, reshape, permute, layout conversions within a thread
/// (those within a warp: EmitShuffle.cpp), iota.
#include "codegen/EmitContext.h"
#include "ir/base/ShufflePlan.h"

namespace sectile::codegen {
namespace {

std::vector<std::int32_t> keyOf(const Coords &c, int rank) { return {c.v.begin(), c.v.begin() + rank}; }

/// The layout of a tile type. A scalar: one element, held by every thread.
Layout layoutOrScalar(mlir::Type t, int warps) {
  if (auto l = tgpu::layoutOf(t))
    return *l;
  int warpBits = 0;
  while ((1 << warpBits) < warps)
    ++warpBits;
  return Layout(0, Coords{}, Coords{}, {}, std::vector<Coords>(laneBits),
                std::vector<Coords>(size_t(warpBits)));
}

} // namespace

mlir::LogicalResult EmitContext::renameRegisters(mlir::Operation *op, mlir::Value src, mlir::Value dst,
                                                 llvm::function_ref<Coords(const Coords &)> map) {
  // Layouts count the warps of all blocks that run a program together.
  int allWarps = int(func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr).allWarps());
  Layout from = layoutOrScalar(src.getType(), allWarps), to = layoutOrScalar(dst.getType(), allWarps);
  if (from.warp().size() != to.warp().size())
    return bug(op, "operand and result are spread over different numbers of warps");
  std::map<std::vector<std::int32_t>, llvm::SmallVector<int, 2>> bySource;
  for (int r = 0; r < from.numRegs(); ++r)
    bySource[keyOf(from.regCoords(r), from.rank())].push_back(r);

  // A register serves if it has the wanted element in every thread; the maps are linear, so single bits
  // suffice.
  auto agrees = [&](int srcReg, int dstReg) {
    for (int bit = 0; bit < laneBits; ++bit)
      if (from.coords(srcReg, 1 << bit, 0) != map(to.coords(dstReg, 1 << bit, 0)))
        return false;
    for (int bit = 0; bit < int(to.warp().size()); ++bit)
      if (from.coords(srcReg, 0, 1 << bit) != map(to.coords(dstReg, 0, 1 << bit)))
        return false;
    return true;
  };
  const Regs source = regs(src);
  Regs result;
  for (int r = 0; r < to.numRegs(); ++r) {
    auto it = bySource.find(keyOf(map(to.regCoords(r)), from.rank()));
    const int *found = nullptr;
    if (it != bySource.end())
      found = llvm::find_if(it->second, [&](int candidate) { return agrees(candidate, r); });
    if (it == bySource.end() || found == it->second.end())
      return bug(op, "needs data of other threads: from " + from.toString() + " to " + to.toString());
    result.push_back(source[size_t(*found)]);
  }
  set(dst, std::move(result));
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitBroadcast(tileir::BroadcastOp op) {
  llvm::ArrayRef<int64_t> shape = tileir::shapeOf(op.getX().getType());
  return renameRegisters(op, op.getX(), op.getResult(), [&](const Coords &c) {
    Coords r = c;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == 1)
        r[int(d)] = 0;
    return r;
  });
}

mlir::LogicalResult EmitContext::emitReshape(tileir::ReshapeOp op) {
  llvm::ArrayRef<int64_t> from = tileir::shapeOf(op.getX().getType()),
                          to = tileir::shapeOf(op.getResult().getType());
  return renameRegisters(op, op.getX(), op.getResult(), [&](const Coords &c) {
    int64_t linear = 0;
    for (size_t d = 0; d < to.size(); ++d)
      linear = linear * to[d] + c[int(d)];
    Coords r;
    for (size_t d = from.size(); d-- > 0;) {
      r[int(d)] = std::int32_t(linear % from[d]);
      linear /= from[d];
    }
    return r;
  });
}

mlir::LogicalResult EmitContext::emitPermute(tileir::PermuteOp op) {
  llvm::ArrayRef<int64_t> perm = op.getPerm();
  return renameRegisters(op, op.getX(), op.getResult(), [&](const Coords &c) {
    Coords r;
    for (size_t d = 0; d < perm.size(); ++d)
      r[int(perm[d])] = c[int(d)];
    return r;
  });
}

mlir::LogicalResult EmitContext::emitConvert(tgpu::ConvertLayoutOp op) {
  auto src = tgpu::layoutOf(op.getX().getType()), dst = tgpu::layoutOf(op.getType());
  if (src && dst && conversionKind(*src, *dst) == ConversionKind::ShuffleLanes)
    if (std::optional<ShufflePlan> plan = ShufflePlan::make(*src, *dst))
      return emitShuffles(op, *plan);
  return renameRegisters(op, op.getX(), op.getResult(), [](const Coords &c) { return c; });
}

void EmitContext::emitIota(tileir::IotaOp op) {
  const Geometry &g = geometry(*tgpu::layoutOf(op.getResult().getType()));
  Regs result;
  std::map<std::int32_t, llvm::Value *> known;
  int axis = int(op.getAxis());
  for (int r = 0; r < g.layout.numRegs(); ++r) {
    llvm::Value *&v = known[g.regs[size_t(r)][axis]];
    if (!v)
      v = b.CreateZExt(coordinate(g, r, axis), b.getInt64Ty());
    result.push_back(v);
  }
  set(op.getResult(), std::move(result));
}

} // namespace sectile::codegen
