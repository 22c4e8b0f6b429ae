// SPDX-License-Identifier: Apache-2.0
/// \file Attributes and types of the `tgpu` dialect.
#include "ir/TgpuDialect.h"
#include "ir/base/LaunchExpr.h"
#include "ir/base/MmaTable.h"
#include "ir/base/Swizzle.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

/// The bytes of a #tgpu.launch, then the parts that only some kernels have: `, cluster = 2`, `, producers = 4`, or both in
/// this order.
static ParseResult parseLaunchRest(AsmParser &parser, int64_t &sharedBytes, int64_t &cluster, int64_t &producers) {
  cluster = 1;
  producers = 0;
  if (parser.parseInteger(sharedBytes))
    return failure();
  while (succeeded(parser.parseOptionalComma())) {
    const bool first = succeeded(parser.parseOptionalKeyword("cluster"));
    int64_t value = 0;
    if ((!first && parser.parseKeyword("producers")) || parser.parseEqual() || parser.parseInteger(value))
      return failure();
    (first ? cluster : producers) = value;
    if (!first)
      break;
  }
  return success();
}
static void printLaunchRest(AsmPrinter &printer, int64_t sharedBytes, int64_t cluster, int64_t producers) {
  printer << sharedBytes;
  if (cluster != 1)
    printer << ", cluster = " << cluster;
  if (producers)
    printer << ", producers = " << producers;
}

#include "ir/TgpuDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/TgpuAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/TgpuTypes.cpp.inc"

namespace sectile::tgpu {
namespace {

/// Layouts are long and repeat: printed modules name each once, at the top.
struct AsmNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, llvm::raw_ostream &os) const override {
    if (!isa<LayoutAttr>(attr))
      return AliasResult::NoAlias;
    os << "layout";
    return AliasResult::OverridableAlias;
  }
};

} // namespace

void TgpuDialect::initialize() {
  addInterfaces<AsmNames>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/TgpuAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/TgpuTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/TgpuOps.cpp.inc"
      >();
}

Operation *TgpuDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return tileir::ConstantOp::create(builder, loc, typed);
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, llvm::StringRef text) {
  std::string whyNot;
  auto layout = Layout::parse(std::string_view(text), &whyNot);
  if (!layout)
    return emitError() << "\"" << text << "\" is no layout: " << whyNot << " [layout_c1]";
  if (std::string normal = layout->toString(); normal != text)
    return emitError() << "\"" << text << "\" is not in normal form [layout_c1]; write \"" << normal << "\"";
  return success();
}

LogicalResult LayoutAttr::verifyEncoding(llvm::ArrayRef<int64_t> shape, Type elementType,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) const {
  auto own = layout().shape();
  if (llvm::equal(own, shape))
    return success();
  auto diagnostic = emitError() << "shape [";
  llvm::interleaveComma(own, diagnostic);
  diagnostic << "] of the layout differs from shape [";
  llvm::interleaveComma(shape, diagnostic);
  return diagnostic << "] of the tile [layout_c2]";
}

Layout LayoutAttr::layout() const { return *Layout::parse(std::string_view(getText())); }

LayoutAttr LayoutAttr::get(MLIRContext *context, const Layout &layout) {
  return get(context, layout.toString());
}

LogicalResult LaunchAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t warps,
                                 int64_t sharedBytes, int64_t cluster, int64_t producers) {
  if (warps < 1 || warps > 32 || !llvm::isPowerOf2_64(uint64_t(warps)))
    return emitError() << warps << " warps per block [launch_c1]; use a power of two from 1 to 32";
  if (sharedBytes < 0)
    return emitError() << sharedBytes << " bytes of shared memory [launch_c2]; give 0 or more";
  if (cluster < 1 || cluster > 16 || !llvm::isPowerOf2_64(uint64_t(cluster)))
    return emitError() << cluster << " blocks per cluster [launch_c3]; use a power of two from 1 to 16";
  if ((producers != 0 && producers != 4) || (producers && warps % 4))
    return emitError() << producers << " producer warps beside " << warps
                       << " warps [launch_c4]; use 0, or 4 beside a multiple of 4";
  return success();
}

LogicalResult MapAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, llvm::ArrayRef<int64_t> order,
                              llvm::ArrayRef<int64_t> box, int64_t swizzle, ArrayAttr limits, bool) {
  llvm::SmallVector<int64_t> axes(order);
  llvm::sort(axes);
  if (order.empty() || order.size() > 5 || !llvm::equal(axes, llvm::seq<int64_t>(0, int64_t(order.size()))))
    return emitError() << "order is no permutation of 1 to 5 axes [map_c1]";
  if (box.size() != order.size() || limits.size() != order.size())
    return emitError() << order.size() << " axes, " << box.size() << " box lengths and " << limits.size()
                       << " limits [map_c1]; give one each per axis";
  if (!llvm::is_contained({16, 32, 64, 128}, swizzle))
    return emitError() << "a swizzle of " << swizzle << " bytes [map_c2]; use 16, 32, 64 or 128";
  for (int64_t length : box)
    if (length < 1 || length > 256)
      return emitError() << "a box length of " << length << " [map_c3]; use 1 to 256";
  for (Attribute limit : limits) {
    auto text = dyn_cast<StringAttr>(limit);
    std::string whyNot;
    if (!text || !LaunchExpr::parse(std::string_view(text.getValue()), &whyNot))
      return emitError() << "the limit " << limit << " is no expression: " << whyNot << " [map_c4]";
  }
  return success();
}

LogicalResult PipeType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                               llvm::ArrayRef<BufferType> buffers) {
  if (stages < 1)
    return emitError() << stages << " stages [pipe_c1]; a pipe has at least 1";
  assert(!buffers.empty() && "no text can say so");
  return success();
}

int64_t PipeType::bufferOffset(unsigned i) const {
  int64_t offset = 0;
  for (BufferType buffer : getBuffers().take_front(i))
    offset += int64_t(llvm::alignTo(uint64_t(buffer.bytes()), slotAlignment));
  return offset;
}

LogicalResult AtomAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, llvm::StringRef name) {
  if (findMma(std::string_view(name)))
    return success();
  return emitError() << "the table of MMA instructions has no row \"" << name << "\" [atom_c1]";
}

LogicalResult BufferType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                 llvm::ArrayRef<int64_t> shape, Type elementType,
                                 llvm::ArrayRef<int64_t> swizzle) {
  if (shape.empty() || llvm::any_of(shape, [](int64_t length) { return length < 1; }))
    return emitError() << "a buffer has at least one axis and lengths of 1 or more [buffer_c1]";
  if (!tileir::dtypeOfType(elementType))
    return emitError() << "the language has no element type " << elementType << " [buffer_c1]";
  std::string why;
  if (!Swizzle::parse({swizzle.data(), swizzle.size()}, llvm::product_of(shape.drop_back()), shape.back(),
                      int64_t(byteSize(*tileir::dtypeOfType(elementType))), &why))
    return emitError() << why << " [buffer_c2]";
  return success();
}

int64_t BufferType::bytes() const {
  int64_t elements = 1;
  for (int64_t length : getShape())
    elements *= length;
  return elements * int64_t(byteSize(*tileir::dtypeOfType(getElementType())));
}

std::optional<Layout> layoutOf(Type t) {
  if (auto tile = dyn_cast<RankedTensorType>(t))
    if (auto attr = dyn_cast_if_present<LayoutAttr>(tile.getEncoding()))
      return attr.layout();
  return std::nullopt;
}

RankedTensorType withLayout(Type t, const Layout &layout) {
  auto tile = cast<RankedTensorType>(t);
  return RankedTensorType::get(tile.getShape(), tile.getElementType(),
                               LayoutAttr::get(t.getContext(), layout));
}

Layout reducedLayout(const Layout &x, int axis) {
  Layout collapsed = x.collapse(axis);
  std::vector<Coords> warps = collapsed.warp();
  // Elimination over F2: warp bits whose coordinates on the axis depend on earlier ones name no new part.
  struct Pivot {
    std::uint32_t onAxis, part;
  };
  std::vector<Pivot> pivots;
  int parts = 0;
  for (std::size_t bit = 0; bit < warps.size(); ++bit) {
    std::uint32_t onAxis = std::uint32_t(x.warp()[bit][axis]), part = 0;
    for (const Pivot &pivot : pivots)
      if ((onAxis ^ pivot.onAxis) < onAxis) {
        onAxis ^= pivot.onAxis;
        part ^= pivot.part;
      }
    if (onAxis) {
      pivots.push_back({onAxis, part ^ (1u << parts)});
      llvm::sort(pivots, [](const Pivot &a, const Pivot &b) { return a.onAxis > b.onAxis; });
      part = 1u << parts++;
    }
    warps[bit][axis] = std::int32_t(part);
  }
  Coords core = collapsed.core();
  core[axis] = 1 << parts;
  return Layout(collapsed.rank(), core, collapsed.reps(), collapsed.reg(), collapsed.lane(),
                std::move(warps));
}

} // namespace sectile::tgpu
