// SPDX-License-Identifier: Apache-2.0
/// \file Verifiers of the `tgpu` ops.
#include "ir/TgpuDialect.h"
#include "ir/base/MmaTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/TgpuOps.cpp.inc"

namespace sectile::tgpu {
namespace {

using tileir::describe;
using tileir::dtypeOfType;
using tileir::elementOf;
using tileir::shapeOf;
using tileir::TensorType;

InFlightDiagnostic broken(Operation *op, llvm::StringRef rule, const llvm::Twine &message,
                          const llvm::Twine &wayOut = "") {
  std::string advice = wayOut.str();
  return op->emitOpError() << message << " [" << rule << "]" << (advice.empty() ? "" : "; ") << advice;
}

Attribute encodingOf(Type t) {
  auto tile = dyn_cast<RankedTensorType>(t);
  return tile ? tile.getEncoding() : Attribute();
}

/// Same shape and layout; element types may differ.
bool liesAs(Type a, Type b) { return shapeOf(a) == shapeOf(b) && encodingOf(a) == encodingOf(b); }

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(shape, stream);
  stream << "]";
  return text;
}

std::string describe(BufferType buffer) {
  return describe(buffer.getElementType()) + " " + shapeText(buffer.getShape());
}

/// Axes of a tensor or tile of rank `rank`, with one lower and one upper bound each.
LogicalResult verifyBounds(Operation *op, llvm::StringRef rule, llvm::StringRef what, int64_t rank,
                           llvm::ArrayRef<int64_t> axes, size_t numLo, size_t numHi) {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || axis >= rank || (i && axis <= axes[i - 1]))
      return broken(op, rule, "axes " + shapeText(axes) + " of a " + what + " of rank " + llvm::Twine(rank),
                    "name axes of the " + what + " in ascending order, each once");
  if (numLo != axes.size() || numHi != axes.size())
    return broken(op, rule,
                  llvm::Twine(axes.size()) + " axes with " + llvm::Twine(numLo) + " lower and " +
                      llvm::Twine(numHi) + " upper bounds",
                  "give one lower and one upper bound per axis");
  return success();
}

/// C1 to C3 of both bounded accesses: one offset per axis, the tile fits, the bounds are well formed.
LogicalResult verifyAccess(Operation *op, llvm::StringRef name, TensorType x, size_t numOffsets, Type tile,
                           llvm::ArrayRef<int64_t> axes, size_t numLo, size_t numHi) {
  std::string c1 = (name + "_c1").str(), c2 = (name + "_c2").str(), c3 = (name + "_c3").str();
  int64_t rank = x.getRank();
  if (int64_t(numOffsets) != rank)
    return broken(op, c1, llvm::Twine(numOffsets) + " offsets for a tensor of rank " + llvm::Twine(rank));
  if (int64_t(shapeOf(tile).size()) != rank || elementOf(tile) != x.getElementType())
    return broken(op, c2, "the tile is " + describe(tile) + ", the tensor is " + describe(x));
  return verifyBounds(op, c3, "tensor", rank, axes, numLo, numHi);
}

/// The shapes of a product, [M, K] times [K, N] into [M, N].
LogicalResult verifyProduct(Operation *op, llvm::StringRef rule, llvm::ArrayRef<int64_t> a,
                            llvm::ArrayRef<int64_t> b, llvm::ArrayRef<int64_t> acc) {
  if (a.size() == 2 && b.size() == 2 && acc.size() == 2 && a[1] == b[0] && acc[0] == a[0] && acc[1] == b[1])
    return success();
  return broken(op, rule,
                "shapes " + shapeText(a) + ", " + shapeText(b) + " and " + shapeText(acc) +
                    " are no [M, K], [K, N] and [M, N]");
}

/// A tile that goes to or comes from a buffer.
LogicalResult verifyCopy(Operation *op, llvm::StringRef rule, Type tile, BufferType buffer) {
  if (shapeOf(tile) == buffer.getShape() && elementOf(tile) == buffer.getElementType())
    return success();
  return broken(op, rule, "the tile is " + describe(tile) + ", the buffer is " + describe(buffer));
}

} // namespace

LogicalResult GlobalLoadOp::verify() {
  if (failed(verifyAccess(*this, "global_load", getX().getType(), getOffsets().size(), getResult().getType(),
                          getAxes(), getLo().size(), getHi().size())))
    return failure();
  if (getPad().getType() != getX().getType().getElementType())
    return broken(*this, "global_load_c4",
                  "pad is " + describe(getPad().getType()) + ", the tensor is " + describe(getX().getType()));
  return success();
}

LogicalResult GlobalStoreOp::verify() {
  Type value = getValue().getType();
  if (failed(verifyAccess(*this, "global_store", getX().getType(), getOffsets().size(), value, getAxes(),
                          getLo().size(), getHi().size())))
    return failure();
  if (getMask() && (!elementOf(getMask().getType()).isInteger(1) || !liesAs(getMask().getType(), value)))
    return broken(*this, "global_store_c4",
                  "the mask is " + describe(getMask().getType()) + ", the tile is " + describe(value),
                  "give a mask of bool with the tile's shape and layout");
  return success();
}

LogicalResult FillOutsideOp::verify() {
  Type type = getX().getType();
  if (failed(verifyBounds(*this, "fill_outside_c1", "tile", int64_t(shapeOf(type).size()), getAxes(), getLo().size(),
                          getHi().size())))
    return failure();
  if (getFill().getType() != elementOf(type))
    return broken(*this, "fill_outside_c2",
                  "fill is " + describe(getFill().getType()) + ", the tile is " + describe(type));
  return success();
}

LogicalResult WarpAnyOp::verify() {
  Type mask = getMask().getType();
  if (elementOf(mask).isInteger(1) && isa<RankedTensorType>(mask))
    return success();
  return broken(*this, "warp_any_c1", "the mask is " + describe(mask), "use a tile of i1");
}

LogicalResult BitsOp::verify() {
  Type from = getX().getType(), to = getResult().getType();
  if (!liesAs(from, to))
    return broken(*this, "bits_c1", "the result is " + describe(to) + ", x is " + describe(from),
                  "give both one shape and layout");
  Type a = elementOf(from), b = elementOf(to);
  auto isSmallFloat = [](Type t) { return isa<FloatType>(t) && byteSize(*dtypeOfType(t)) <= 4; };
  if ((a.isSignlessInteger(32) && isSmallFloat(b)) || (b.isSignlessInteger(32) && isSmallFloat(a)))
    return success();
  return broken(*this, "bits_c2", "from " + describe(a) + " to " + describe(b),
                "one is i32, the other a float of at most 4 bytes");
}

LogicalResult MisalignOp::verify() {
  if (int64_t(getOffsets().size()) != getX().getType().getRank())
    return broken(*this, "misalign_c1",
                  llvm::Twine(getOffsets().size()) + " offsets for a tensor of rank " +
                      llvm::Twine(getX().getType().getRank()));
  int64_t element = int64_t(byteSize(*dtypeOfType(getX().getType().getElementType())));
  if (getBytes() < uint64_t(element) || !llvm::isPowerOf2_64(getBytes()))
    return broken(*this, "misalign_c2",
                  llvm::Twine(getBytes()) + " bytes, an element has " + llvm::Twine(element),
                  "give a power of two of at least one element");
  return success();
}

LogicalResult GlobalGatherOp::verify() {
  TensorType x = getX().getType();
  if (int64_t(getIndices().size()) != x.getRank())
    return broken(*this, "global_gather_c1",
                  llvm::Twine(getIndices().size()) + " indices for a tensor of rank " +
                      llvm::Twine(x.getRank()));
  Type result = getResult().getType();
  if (elementOf(result) != x.getElementType())
    return broken(*this, "global_gather_c2",
                  "the result is " + describe(result) + ", the tensor is " + describe(x));
  auto check = [&](llvm::StringRef what, Type t, bool isElement) -> LogicalResult {
    if (isElement && (!isa<RankedTensorType>(t) || liesAs(t, result)))
      return success();
    return broken(*this, "global_gather_c2",
                  what + " is " + describe(t) + ", the result is " + describe(result),
                  "give index tiles of index and a mask of bool, with the result's shape and layout");
  };
  for (Value index : getIndices())
    if (failed(check("an index", index.getType(), isa<IndexType>(elementOf(index.getType())))))
      return failure();
  return check("the mask", getMask().getType(), elementOf(getMask().getType()).isInteger(1));
}

LogicalResult ConvertLayoutOp::verify() {
  Type from = getX().getType(), to = getResult().getType();
  if (shapeOf(from) != shapeOf(to) || elementOf(from) != elementOf(to))
    return broken(*this, "convert_layout_c1", "x is " + describe(from) + ", the result is " + describe(to));
  for (auto [what, t] : {std::pair("x", from), std::pair("the result", to)})
    if (!layoutOf(t))
      return broken(*this, "convert_layout_c1", llvm::Twine(what) + " has no layout");
  return success();
}

OpFoldResult ConvertLayoutOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<RankedTensorType>(getType()));
  auto inner = getX().getDefiningOp<ConvertLayoutOp>();
  if (!inner)
    return {};
  if (inner.getX().getType() == getType())
    return inner.getX();
  getXMutable().assign(inner.getX());
  return getResult();
}

LogicalResult CopyOp::verify() {
  return verifyCopy(*this, "copy_c1", getValue().getType(), getBuffer().getType());
}

LogicalResult ClusterStartOp::verify() {
  if (isa<FunctionOpInterface>((*this)->getParentOp()))
    return success();
  return broken(*this, "cluster_start_c1", "is inside " + (*this)->getParentOp()->getName().getStringRef(),
                "put it in the body of the function");
}

LogicalResult PeerCopyOp::verify() {
  if (failed(verifyCopy(*this, "peer_copy_c1", getValue().getType(), getBuffer().getType())))
    return failure();
  Type element = elementOf(getValue().getType());
  if (byteSize(*dtypeOfType(element)) >= 4)
    return success();
  return broken(*this, "peer_copy_c2", "elements are " + describe(element), "cast to a type of 4 or 8 bytes");
}

LogicalResult BufferViewOp::verify() {
  BufferType from = getBuffer().getType(), to = getResult().getType();
  auto count = [](BufferType t) {
    int64_t n = 1;
    for (int64_t length : t.getShape())
      n *= length;
    return n;
  };
  if (from.getElementType() != to.getElementType() || count(from) != count(to))
    return broken(*this, "buffer_view_c1",
                  "the buffer is " + describe(from) + ", the view is " + describe(to));
  if (!from.getSwizzle().empty() || !to.getSwizzle().empty())
    return broken(*this, "buffer_view_c2", "a swizzled buffer has no row-major order",
                  "use a buffer without swizzle");
  return success();
}

LogicalResult CopyOutOp::verify() {
  return verifyCopy(*this, "copy_out_c1", getResult().getType(), getBuffer().getType());
}

LogicalResult ReduceOp::verify() {
  Type x = getX().getType(), result = getResult().getType();
  auto layout = layoutOf(x);
  if (!layout)
    return broken(*this, "reduce_c1", "x has no layout");
  int64_t axis = int64_t(getAxis()), rank = layout->rank();
  if (axis < 0 || axis >= rank)
    return broken(*this, "reduce_c2",
                  "axis " + llvm::Twine(axis) + " of a tile of rank " + llvm::Twine(rank));
  Layout expected = reducedLayout(*layout, int(axis));
  if (elementOf(result) != elementOf(x))
    return broken(*this, "reduce_c2", "x is " + describe(x) + ", the result is " + describe(result));
  if (layoutOf(result) != expected)
    return broken(*this, "reduce_c2",
                  "the result's layout is not x's collapsed along axis " + llvm::Twine(axis),
                  "use " + expected.toString());
  auto kind = getKind();
  bool wanted = kind == tileir::ReduceKind::k_argmax || kind == tileir::ReduceKind::k_argmin;
  if (wanted != bool(getPositions()) || wanted != bool(getResultPositions()))
    return broken(*this, "reduce_c3",
                  llvm::Twine(wanted ? "positions are missing for " : "positions are given for ") +
                      stringifyReduceKind(kind));
  if (!wanted)
    return success();
  for (auto [what, position, value] :
       {std::tuple("positions", getPositions().getType(), x),
        std::tuple("resulting positions", getResultPositions().getType(), result)})
    if (!isa<IndexType>(elementOf(position)) || !liesAs(position, value))
      return broken(*this, "reduce_c3",
                    llvm::Twine(what) + " are " + describe(position) + ", values are " + describe(value),
                    "give positions of index with the shape and layout of the values");
  return success();
}

LogicalResult MmaSyncOp::verify() {
  Type a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  if (acc != getResult().getType())
    return broken(*this, "mma_sync_c1",
                  "the result is " + describe(getResult().getType()) + ", acc is " + describe(acc),
                  "give both one type, layout included");
  if (failed(verifyProduct(*this, "mma_sync_c1", shapeOf(a), shapeOf(b), shapeOf(acc))))
    return failure();
  const MmaRow &row = *findMma(std::string_view(getAtom().getName()));
  const std::tuple<const char *, Type, DType> operands[] = {
      {"a", a, row.a.dtype}, {"b", b, row.b.dtype}, {"acc", acc, row.c.dtype}};
  for (auto [what, t, dtype] : operands) {
    if (dtypeOfType(elementOf(t)) != dtype)
      return broken(*this, "mma_sync_c2",
                    llvm::Twine(what) + " is " + describe(t) + ", the atom takes " +
                        llvm::StringRef(name(dtype)));
    if (!layoutOf(t))
      return broken(*this, "mma_sync_c4", llvm::Twine(what) + " has no layout");
  }
  int64_t m = shapeOf(a)[0], n = shapeOf(b)[1], k = shapeOf(a)[1];
  if (m % row.m || n % row.n || k % row.k)
    return broken(*this, "mma_sync_c3",
                  "M, N, K = " + shapeText({m, n, k}) + " are no multiples of the atom's " +
                      shapeText({row.m, row.n, row.k}));
  return success();
}

LogicalResult MmaFmaOp::verify() {
  if (getAcc().getType() != getResult().getType())
    return broken(*this, "mma_fma_c1",
                  "the result is " + describe(getResult().getType()) + ", acc is " +
                      describe(getAcc().getType()),
                  "give both one type, layout included");
  return verifyProduct(*this, "mma_fma_c1", getA().getType().getShape(), getB().getType().getShape(),
                       shapeOf(getAcc().getType()));
}

// --- parts of a program

namespace {

/// The op is directly in its kernel's body and the only one of its kind.
/// At the top level of the kernel or of its consumers.
template <class OpT> bool isOnceAtTop(OpT op) {
  Operation *parent = op->getParentOp();
  auto roles = dyn_cast<RolesOp>(parent);
  if (roles && op->getParentRegion() != &roles.getConsumer())
    return false;
  return isa<func::FuncOp>(roles ? roles->getParentOp() : parent) && llvm::range_size(op->getBlock()->template getOps<OpT>()) == 1;
}

} // namespace

std::optional<LaunchNumber> launchNumber(Value v) {
  if (auto cast = v.getDefiningOp<tileir::CastOp>(); cast && isa<IntegerType>(cast.getX().getType()))
    v = cast.getX(); // to index: the value of the argument
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    auto type = dtypeOfType(v.getType());
    if (isa<func::FuncOp>(arg.getOwner()->getParentOp()) && type && isInt(*type))
      return LaunchNumber{.arg = int(arg.getArgNumber())};
    return std::nullopt;
  }
  if (auto dim = v.getDefiningOp<tileir::DimOp>()) {
    auto arg = dyn_cast<BlockArgument>(dim.getX());
    if (arg && isa<func::FuncOp>(arg.getOwner()->getParentOp()))
      return LaunchNumber{.arg = int(arg.getArgNumber()), .axis = int(dim.getAxis())};
    return std::nullopt;
  }
  IntegerAttr value;
  if (matchPattern(v, m_Constant(&value)))
    return LaunchNumber{.value = value.getInt()};
  return std::nullopt;
}

/// The launch can compute the bounds of a range.
template <class OpT> static LogicalResult verifyRange(OpT op, const char *rule) {
  for (auto [what, v] : {std::pair("lower", op.getLower()), std::pair("upper", op.getUpper())})
    if (!launchNumber(v))
      return broken(op, rule, llvm::Twine(what) + " is not known at the launch",
                    "use a constant, the length of an axis of an argument, or an integer argument");
  auto step = launchNumber(op.getStep());
  if (!step || step->arg >= 0 || step->value < 1)
    return broken(op, rule, "step is no constant above 0");
  return success();
}

LogicalResult SharedProgramsOp::verify() {
  if (!isOnceAtTop(*this))
    return broken(*this, "shared_programs_c1", "not the only one at the top level of its kernel");
  return verifyRange(*this, "shared_programs_c1");
}

LogicalResult SplitRangeOp::verify() {
  if (!isOnceAtTop(*this))
    return broken(*this, "split_range_c1", "not the only one at the top level of its kernel");
  if (failed(verifyRange(*this, "split_range_c2")))
    return failure();
  if (int64_t trips = getMinTripsAttr().getInt(), parts = getPartsAttr().getInt(); trips < 1 || parts < 0)
    return broken(*this, "split_range_c3", "min_trips " + llvm::Twine(trips) + ", parts " + llvm::Twine(parts),
                  "give at least 1 trip, and 0 or more parts");
  return success();
}

llvm::SmallVector<tileir::BinaryFn> CombinePartsOp::functionList() {
  return llvm::map_to_vector(getFunctions(), [](Attribute fn) { return cast<tileir::BinaryFnAttr>(fn).getValue(); });
}

LogicalResult CombinePartsOp::verify() {
  using tileir::BinaryFn;
  if (getFunctions().size() != getValues().size() || getTotals().size() != getValues().size())
    return broken(*this, "combine_parts_c1",
                  llvm::Twine(getFunctions().size()) + " functions and " + llvm::Twine(getTotals().size()) +
                      " totals for " + llvm::Twine(getValues().size()) + " values");
  for (auto [fn, value, total] : llvm::zip_equal(functionList(), getValues().getTypes(), getTotals().getTypes())) {
    if (value != total)
      return broken(*this, "combine_parts_c1",
                    "a value is " + describe(value) + ", its total is " + describe(total),
                    "give both one type, layout included");
    Type element = elementOf(value);
    bool isFloat = isa<FloatType>(element), defined = false;
    switch (fn) {
    case BinaryFn::k_add:
    case BinaryFn::k_mul:
    case BinaryFn::k_maxnum:
    case BinaryFn::k_minnum:
      defined = !element.isInteger(1);
      break;
    case BinaryFn::k_max:
    case BinaryFn::k_min:
      defined = true;
      break;
    case BinaryFn::k_bitand:
    case BinaryFn::k_bitor:
    case BinaryFn::k_bitxor:
      defined = !isFloat;
      break;
    default:
      break;
    }
    if (!defined)
      return broken(*this, "combine_parts_c2",
                    "'" + stringifyBinaryFn(fn) + "' does not put parts of " + describe(value) + " together");
  }
  auto func = (*this)->getParentOfType<func::FuncOp>();
  if (!getShare().empty()) {
    auto programs = dyn_cast<scf::ForOp>((*this)->getParentOp());
    if (getShare().size() != 4 || !programs || func.getOps<SharedProgramsOp>().empty() ||
        llvm::range_size(programs.getBody()->getOps<CombinePartsOp>()) != 1)
      return broken(*this, "combine_parts_c3", llvm::Twine(getShare().size()) +
                        " numbers in 'share', not four in the loop over programs of a kernel with tgpu.shared_programs");
    return success();
  }
  if (!isOnceAtTop(*this) || func.getOps<SplitRangeOp>().empty())
    return broken(*this, "combine_parts_c3",
                  "not the only one at the top level of a kernel with tgpu.split_range");
  return success();
}

} // namespace sectile::tgpu
