// SPDX-License-Identifier: Apache-2.0
/// \file Verifiers of the `tile` ops. The rules themselves are in Rules.cpp; folds are in TileFolds.cpp.
#include "ir/Rules.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/TileOps.cpp.inc"

namespace sectile::tileir {
namespace {

InFlightDiagnostic report(Operation *op, const Violation &v) { return op->emitOpError() << v.text(); }

InFlightDiagnostic report(Operation *op, llvm::StringRef rule, const llvm::Twine &message,
                          const llvm::Twine &wayOut = "") {
  return report(op, Violation{op->getName().stripDialect().str(), message.str(), rule.str(), wayOut.str()});
}

/// The result is what the rules infer, encoding included: for ops whose results lie like their operands.
LogicalResult sameAs(Operation *op, Type inferred, const Violation &v, llvm::StringRef rule) {
  if (!inferred)
    return report(op, v);
  Type actual = op->getResult(0).getType();
  if (actual == inferred)
    return success();
  if (describe(actual) == describe(inferred))
    return report(op, rule, "operand and result have different layouts");
  return report(op, rule, "the result is " + describe(actual) + ", not " + describe(inferred));
}

/// The result has the shape and element type that the rules infer; its layout is free.
LogicalResult shapedAs(Operation *op, Type inferred, const Violation &v, llvm::StringRef shapeRule,
                       llvm::StringRef elementRule) {
  if (!inferred)
    return report(op, v);
  Type actual = op->getResult(0).getType();
  if (isa<RankedTensorType>(actual) != isa<RankedTensorType>(inferred) ||
      shapeOf(actual) != shapeOf(inferred))
    return report(op, shapeRule, "the result is " + describe(actual) + ", not " + describe(inferred));
  if (elementOf(actual) != elementOf(inferred))
    return report(op, elementRule, "the result is " + describe(actual) + ", not " + describe(inferred));
  return success();
}

/// True if the tensor is, or is a slice of, an argument that the kernel only reads.
bool isReadOnly(Value x) {
  while (auto slice = x.getDefiningOp<SliceOp>())
    x = slice.getX();
  auto argument = dyn_cast<BlockArgument>(x);
  if (!argument)
    return false;
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function && argument.getOwner()->isEntryBlock() &&
         function.getArgAttr(argument.getArgNumber(), readOnlyAttr);
}

} // namespace

LogicalResult GridOp::verify() {
  Violation v;
  if (!checkGrid(getX().getType(), getSizes(), v))
    return report(*this, v);
  if (getOffsets().size() != getSizes().size()) // grid_c2
    return report(*this, "grid_c2",
                  llvm::Twine(getSizes().size()) + " sizes but " + llvm::Twine(getOffsets().size()) +
                      " results");
  auto function = dyn_cast<FunctionOpInterface>((*this)->getParentOp());
  if (!function) // grid_c1
    return report(*this, "grid_c1", "the grid stands inside a loop or a branch",
                  "declare it at the kernel's top level");
  for (Operation *earlier = (*this)->getPrevNode(); earlier; earlier = earlier->getPrevNode())
    if (isa<GridOp>(earlier))
      return report(*this, "grid_c1", "the kernel has a second grid", "declare one grid over all axes");
  auto argument = dyn_cast<BlockArgument>(getX());
  if (!argument || argument.getOwner()->getParentOp() != function) // grid_c4
    return report(*this, "grid_c4", "the tensor of the grid is no argument of the kernel",
                  "take the whole tensor and slice it afterwards");
  return success();
}

LogicalResult DimOp::verify() {
  Violation v;
  if (!checkAxis("dim", int64_t(getAxis()), getX().getType().getRank(), "dim_c1", v))
    return report(*this, v);
  return success();
}

LogicalResult SliceOp::verify() {
  Violation v;
  if (!checkAxis("slice", int64_t(getAxis()), getX().getType().getRank(), "slice_c1", v))
    return report(*this, v);
  return sameAs(*this, getX().getType(), v, "slice_c1");
}

LogicalResult ConstantOp::verify() {
  TypedAttr value = getValue();
  if (value.getType() != getType())
    return report(*this, "constant_c1",
                  "the result is " + describe(getType()) + ", the value is " + describe(value.getType()));
  if (isa<RankedTensorType>(getType()) ? isa<SplatElementsAttr>(value) : isa<IntegerAttr, FloatAttr>(value))
    return success();
  return report(*this, "constant_c1", "a value of " + describe(getType()) + " with different lanes",
                "a tile constant has one value in every lane");
}

LogicalResult LoadOp::verify() {
  Violation v;
  return shapedAs(*this, inferLoad(getX().getType(), getOffsets().size(), shapeOf(getType()), v), v,
                  "load_c2", "load_c3");
}

LogicalResult StoreOp::verify() {
  Violation v;
  if (!checkStore(getValue().getType(), getX().getType(), getOffsets().size(), isReadOnly(getX()), v))
    return report(*this, v);
  return success();
}

LogicalResult GatherOp::verify() {
  Violation v;
  llvm::SmallVector<Type> indices(getIndices().getTypes());
  Type inferred = inferGather(getX().getType(), indices, v);
  if (inferred && !isa<RankedTensorType>(inferred) &&
      isa<RankedTensorType>(getType())) // all indices are scalars
    inferred = withElement(getType(), elementOf(inferred));
  return shapedAs(*this, inferred, v, "gather_c2", "gather_c3");
}

LogicalResult KeepOp::verify() {
  Violation v;
  return sameAs(*this, inferKeep(getMask().getType(), getX().getType(), v), v, "keep_c1");
}

LogicalResult FillOp::verify() {
  Violation v;
  return sameAs(*this, inferFill(getX().getType(), getValue().getType(), v), v, "fill_c1");
}

LogicalResult UnaryOp::verify() {
  Violation v;
  Type type = getFn() == UnaryFn::k_bits ? inferBits(getX().getType(), *dtypeOfType(elementOf(getType())), v)
                                         : inferUnary(getFn(), getX().getType(), v);
  return sameAs(*this, type, v, "unary_c2");
}

LogicalResult BinaryOp::verify() {
  Violation v;
  return sameAs(*this, inferBinary(getFn(), getA().getType(), getB().getType(), v), v, "binary_c2");
}

LogicalResult CompareOp::verify() {
  Violation v;
  return sameAs(*this, inferCompare(getPred(), getA().getType(), getB().getType(), v), v, "compare_c3");
}

LogicalResult SelectOp::verify() {
  Violation v;
  return sameAs(*this, inferSelect(getCond().getType(), getA().getType(), getB().getType(), v), v,
                "select_c2");
}

LogicalResult FmaOp::verify() {
  Violation v;
  return sameAs(*this, inferFma(getA().getType(), getB().getType(), getC().getType(), v), v, "fma_c1");
}

LogicalResult CastOp::verify() {
  Violation v;
  return sameAs(*this, inferCast(getX().getType(), *dtypeOfType(elementOf(getType())), v), v, "cast_c1");
}

LogicalResult IotaOp::verify() {
  Violation v;
  return shapedAs(*this, inferIota(getContext(), int64_t(getAxis()), shapeOf(getType()), v), v, "iota_c1",
                  "iota_c2");
}

LogicalResult SplatOp::verify() {
  if (elementOf(getType()) == getX().getType())
    return success();
  return report(*this, "splat_c1",
                "the scalar is " + describe(getX().getType()) + ", the tile is " + describe(getType()),
                "cast the scalar first");
}

LogicalResult BroadcastOp::verify() {
  Violation v;
  return shapedAs(*this, inferBroadcast(getX().getType(), shapeOf(getType()), v), v, "broadcast_c2",
                  "broadcast_c1");
}

LogicalResult ReshapeOp::verify() {
  Violation v;
  return shapedAs(*this, inferReshape(getX().getType(), shapeOf(getType()), v), v, "reshape_c1",
                  "reshape_c2");
}

LogicalResult PermuteOp::verify() {
  Violation v;
  return shapedAs(*this, inferPermute(getX().getType(), getPerm(), v), v, "permute_c2", "permute_c2");
}

LogicalResult ReduceOp::verify() {
  Violation v;
  return shapedAs(*this, inferReduce(getKind(), getX().getType(), int64_t(getAxis()), v), v, "reduce_c3",
                  "reduce_c3");
}

LogicalResult MmaOp::verify() {
  Violation v;
  return sameAs(*this, inferMma(getPolicy(), getA().getType(), getB().getType(), getAcc().getType(), v), v,
                "mma_c2");
}

} // namespace sectile::tileir
