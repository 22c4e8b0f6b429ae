// SPDX-License-Identifier: Apache-2.0
#include "ir/TileDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

#include "ir/TileDialect.cpp.inc"
#include "ir/TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/TileTypes.cpp.inc"

namespace sectile::tileir {

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/TileOps.cpp.inc"
      >();
}

Operation *TileDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, typed);
}

LogicalResult TensorType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t rank,
                                 Type elementType) {
  if (rank < 1 || rank > maxTileRank)
    return emitError() << "rank " << rank << " of a tensor view is outside 1 to " << maxTileRank
                       << " [tensor_c1]";
  if (!dtypeOfType(elementType))
    return emitError() << "the language has no element type " << elementType << " [tensor_c2]";
  if (dtypeOfType(elementType) == DType::e2m1)
    return emitError() << "two e2m1 share a byte of memory: a tensor of them is one of ui8 [tensor_c3]";
  return success();
}

Type elementType(MLIRContext *context, DType dtype) {
  switch (dtype) {
  case DType::f64:
    return Float64Type::get(context);
  case DType::f32:
    return Float32Type::get(context);
  case DType::f16:
    return Float16Type::get(context);
  case DType::bf16:
    return BFloat16Type::get(context);
  case DType::e4m3:
    return Float8E4M3FNType::get(context);
  case DType::e5m2:
    return Float8E5M2Type::get(context);
  case DType::i8:
    return IntegerType::get(context, 8);
  case DType::i16:
    return IntegerType::get(context, 16);
  case DType::i32:
    return IntegerType::get(context, 32);
  case DType::i64:
    return IntegerType::get(context, 64);
  case DType::u8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::u16:
    return IntegerType::get(context, 16, IntegerType::Unsigned);
  case DType::u32:
    return IntegerType::get(context, 32, IntegerType::Unsigned);
  case DType::u64:
    return IntegerType::get(context, 64, IntegerType::Unsigned);
  case DType::boolean:
    return IntegerType::get(context, 1);
  case DType::e2m1:
    return Float4E2M1FNType::get(context);
  case DType::e2m3:
    return Float6E2M3FNType::get(context);
  case DType::e3m2:
    return Float6E3M2FNType::get(context);
  case DType::ue8m0:
    return Float8E8M0FNUType::get(context);
  case DType::index:
    break;
  }
  return IndexType::get(context);
}

std::optional<DType> dtypeOfType(Type elementType) {
  if (auto integer = dyn_cast<IntegerType>(elementType)) {
    if (integer.isSigned())
      return std::nullopt;
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return isUnsigned ? std::nullopt : std::optional(DType::boolean);
    case 8:
      return isUnsigned ? DType::u8 : DType::i8;
    case 16:
      return isUnsigned ? DType::u16 : DType::i16;
    case 32:
      return isUnsigned ? DType::u32 : DType::i32;
    case 64:
      return isUnsigned ? DType::u64 : DType::i64;
    default:
      return std::nullopt;
    }
  }
  return llvm::TypeSwitch<Type, std::optional<DType>>(elementType)
      .Case<Float64Type>([](Type) { return DType::f64; })
      .Case<Float32Type>([](Type) { return DType::f32; })
      .Case<Float16Type>([](Type) { return DType::f16; })
      .Case<BFloat16Type>([](Type) { return DType::bf16; })
      .Case<Float8E4M3FNType>([](Type) { return DType::e4m3; })
      .Case<Float8E5M2Type>([](Type) { return DType::e5m2; })
      .Case<Float4E2M1FNType>([](Type) { return DType::e2m1; })
      .Case<Float6E2M3FNType>([](Type) { return DType::e2m3; })
      .Case<Float6E3M2FNType>([](Type) { return DType::e3m2; })
      .Case<Float8E8M0FNUType>([](Type) { return DType::ue8m0; })
      .Case<IndexType>([](Type) { return DType::index; })
      .Default([](Type) { return std::nullopt; });
}

bool isTile(Type t) {
  auto tile = dyn_cast<RankedTensorType>(t);
  return tile && tile.hasStaticShape() && tile.getRank() >= 1 && tile.getRank() <= maxTileRank &&
         llvm::all_of(tile.getShape(), [](int64_t length) { return length >= 1; }) &&
         dtypeOfType(tile.getElementType());
}

Type withElement(Type like, Type element) {
  if (auto tile = dyn_cast<RankedTensorType>(like))
    return RankedTensorType::get(tile.getShape(), element, tile.getEncoding());
  return element;
}

std::string describe(Type t) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Type element = elementOf(t);
  if (auto view = dyn_cast<TensorType>(t))
    element = view.getElementType();
  if (auto dtype = dtypeOfType(element))
    stream << name(*dtype);
  else
    stream << element;
  if (auto view = dyn_cast<TensorType>(t))
    stream << " tensor of rank " << view.getRank();
  else if (isa<RankedTensorType>(t)) {
    stream << " [";
    llvm::interleaveComma(shapeOf(t), stream);
    stream << "]";
  }
  return text;
}

} // namespace sectile::tileir
