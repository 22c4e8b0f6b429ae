// SPDX-License-Identifier: Apache-2.0
/// \file Divisibility of index values and facts of tensor views, for the width of memory accesses.
#include "codegen/EmitContext.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <bit>

namespace sectile::codegen {
namespace {

constexpr std::int64_t most = std::int64_t(1) << 30;

std::int64_t powerOfTwoIn(const llvm::APInt &v) {
  return v.isZero() ? most : std::int64_t(1) << std::min(30u, v.countr_zero());
}
std::int64_t times(std::int64_t x, std::int64_t y) { return std::min(most, x * y); }

/// The value of an integer constant.
std::optional<llvm::APInt> constantInt(mlir::Value v) {
  mlir::Attribute attr;
  if (auto c = v.getDefiningOp<tileir::ConstantOp>())
    attr = c.getValue();
  else if (auto c = v.getDefiningOp<mlir::arith::ConstantOp>())
    attr = c.getValue();
  if (auto number = llvm::dyn_cast_or_null<mlir::IntegerAttr>(attr))
    return number.getValue();
  return std::nullopt;
}

} // namespace

std::int64_t EmitContext::divisor(mlir::Value v, int depth) {
  using tileir::BinaryFn;
  if (depth > 32)
    return 1;
  auto of = [&](mlir::Value x) { return divisor(x, depth + 1); };
  if (auto c = constantInt(v))
    return powerOfTwoIn(*c);
  if (auto arg = llvm::dyn_cast<mlir::BlockArgument>(v)) {
    auto loop = llvm::dyn_cast<mlir::scf::ForOp>(arg.getOwner()->getParentOp());
    if (loop && loop.getInductionVar() == v)
      return std::min(of(loop.getLowerBound()), of(loop.getStep()));
    return 1;
  }
  mlir::Operation *op = v.getDefiningOp();
  if (auto grid = llvm::dyn_cast<tileir::GridOp>(op)) {
    unsigned d = llvm::cast<mlir::OpResult>(v).getResultNumber();
    return powerOfTwoIn(llvm::APInt(64, std::uint64_t(grid.getSizes()[d])));
  }
  if (auto dim = llvm::dyn_cast<tileir::DimOp>(op))
    return facts(dim.getX()).dimDiv[size_t(dim.getAxis())];
  if (auto cast = llvm::dyn_cast<tileir::CastOp>(op)) {
    if (llvm::isa<mlir::RankedTensorType>(cast.getX().getType()) || !isInt(dtype(cast.getX().getType())))
      return 1;
    // A narrower type keeps the low bits, so the divisor holds (up to "the value is 0").
    return of(cast.getX());
  }
  if (auto select = llvm::dyn_cast<tileir::SelectOp>(op))
    return std::min(of(select.getA()), of(select.getB()));
  if (auto choice = llvm::dyn_cast<mlir::scf::IfOp>(op)) {
    unsigned n = llvm::cast<mlir::OpResult>(v).getResultNumber();
    return std::min(of(choice.thenYield().getOperand(n)), of(choice.elseYield().getOperand(n)));
  }
  if (auto bin = llvm::dyn_cast<tileir::BinaryOp>(op)) {
    if (llvm::isa<mlir::RankedTensorType>(v.getType()) || !isInt(dtype(v.getType())))
      return 1;
    std::int64_t x = of(bin.getA());
    switch (bin.getFn()) {
    case BinaryFn::k_add:
    case BinaryFn::k_sub:
    case BinaryFn::k_max:
    case BinaryFn::k_min:
    case BinaryFn::k_maxnum:
    case BinaryFn::k_minnum:
    case BinaryFn::k_rem:
    case BinaryFn::k_floormod:
    case BinaryFn::k_bitor:
    case BinaryFn::k_bitxor:
      return std::min(x, of(bin.getB()));
    case BinaryFn::k_bitand:
      return std::max(x, of(bin.getB()));
    case BinaryFn::k_mul:
      return times(x, of(bin.getB()));
    case BinaryFn::k_div:
    case BinaryFn::k_floordiv:
      if (auto c = constantInt(bin.getB()); c && c->isPowerOf2() && c->getActiveBits() < 32)
        return std::max<std::int64_t>(1, x / std::int64_t(c->getZExtValue()));
      return 1;
    case BinaryFn::k_shl:
      if (auto c = constantInt(bin.getB()); c && c->ult(31))
        return times(x, std::int64_t(1) << c->getZExtValue());
      return x;
    default:
      return 1;
    }
  }
  if (llvm::isa<mlir::arith::AddIOp, mlir::arith::SubIOp, mlir::arith::MaxSIOp, mlir::arith::MinSIOp>(op))
    return std::min(of(op->getOperand(0)), of(op->getOperand(1)));
  if (llvm::isa<mlir::arith::MulIOp>(op))
    return times(of(op->getOperand(0)), of(op->getOperand(1)));
  return 1;
}

ViewFacts EmitContext::facts(mlir::Value v) {
  if (auto it = argumentFacts.find(v); it != argumentFacts.end())
    return it->second;
  auto type = llvm::cast<tileir::TensorType>(v.getType());
  std::int64_t elementBytes = std::int64_t(byteSize(dtype(type)));
  if (auto slice = v.getDefiningOp<tileir::SliceOp>()) {
    ViewFacts f = facts(slice.getX());
    size_t axis = size_t(slice.getAxis());
    std::int64_t dim = f.dimDiv[axis], lo = divisor(slice.getLo());
    if (lo != most) // clamped to 0, itself or the length
      lo = std::min(lo, dim);
    std::int64_t stride = f.unitAxis == int(axis) ? 1 : f.strideDiv[axis];
    f.alignBytes = std::min(f.alignBytes, times(lo, times(stride, elementBytes)));
    f.dimDiv[axis] = std::min({lo, divisor(slice.getHi()), dim});
    return f;
  }
  ViewFacts f;
  f.alignBytes = elementBytes;
  f.strideDiv.assign(size_t(type.getRank()), 1);
  f.dimDiv.assign(size_t(type.getRank()), 1);
  return f;
}

} // namespace sectile::codegen
