// SPDX-License-Identifier: Apache-2.0
// The `tile` dialect: what the user wrote. Value tiles, no threads, no memory spaces.
#ifndef SECTILE_TILE_DIALECT
#define SECTILE_TILE_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def TileDialect : Dialect {
  let name = "tile";
  let cppNamespace = "::sectile::tileir";
  let summary = "Tile-level programs as the user wrote them";
  let description = [{
    A kernel is a `func.func` with the unit attribute `tile.kernel`. Its arguments are tensor views
    (`!tile.tensor<rank, element>`) and scalars. A tile is a builtin ranked tensor of static shape, rank 1 to 5; a
    tile of rank 0 is the plain scalar type. Element types: f64 f32 f16 bf16 f8E4M3FN f8E5M2, i8..i64 (signed),
    ui8..ui64, i1 (truth values) and index (64-bit signed meaning). Types of storage, moved and converted but not computed
    with: f4E2M1FN, f6E2M3FN, f6E3M2FN, f8E8M0FNU.

    **Lanes that do not exist.** A tile value carries, beside its lanes, one interval of existing coordinates per
    axis (its *extents*) and, where `tile.keep` made one, a *mask*. Elementwise results have the intersection of
    the extents and the conjunction of the masks. Stores leave the memory of missing lanes alone. No op has
    undefined results.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

def Tile_TensorType : TypeDef<TileDialect, "Tensor"> {
  let mnemonic = "tensor";
  let summary = "View of a tensor in global memory: element type, rank; dims and strides at run time, in elements";
  let description = "C1 (tensor_c1): rank is 1 to 5. C2 (tensor_c2): the element type is one of the language. C3 (tensor_c3): it has whole bytes, unlike f4E2M1FN.";
  let parameters = (ins "int64_t":$rank, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rank `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def Tile_Scalar : Type<CPred<"::sectile::tileir::dtypeOfType($_self).has_value()">, "scalar">;
def Tile_Shaped : Type<CPred<"::sectile::tileir::isTile($_self)">,
                       "tile of rank 1 to 5 with lengths of 1 or more and an element type of the language">;
def Tile_Tile : Type<Or<[Tile_Scalar.predicate, Tile_Shaped.predicate]>, "tile or scalar">;
/// Rules on its shape are the op's own.
def Tile_Loaded : Type<AnyStaticShapeTensor.predicate, "tile">;

/// Types that are one in valid IR, so only one is written. Unlike AllTypesMatch it leaves the check to the op's verifier,
/// which names the rule and both types.
class OneType<list<string> names> : AllTypesMatch<names> {
  let predicate = CPred<"true">;
}

class TileEnum<string cname, list<string> names> : I32EnumAttr<cname, "",
    !foreach(i, !range(0, !size(names)), I32EnumAttrCase<"k_" # names[i], i, names[i]>)> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::sectile::tileir";
}
class TileEnumAttr<TileEnum info, string mnemonic> : EnumAttr<TileDialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

// Order is part of no file format; names are.
def UnaryFn : TileEnum<"UnaryFn", ["neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh",
    "erf", "sigmoid", "floor", "ceil", "round", "trunc", "bitnot", "isnan", "isinf", "bits"]>;
def BinaryFn : TileEnum<"BinaryFn", ["add", "sub", "mul", "div", "rem", "floordiv", "floormod", "max", "min",
    "maxnum", "minnum", "bitand", "bitor", "bitxor", "shl", "shr", "pow"]>;
def ComparePred : TileEnum<"ComparePred", ["eq", "ne", "lt", "le", "gt", "ge"]>;
def ReduceKind : TileEnum<"ReduceKind", ["sum", "prod", "max", "min", "maxnum", "minnum", "any", "all", "argmax",
    "argmin"]>;
def MmaPolicy : TileEnum<"MmaPolicy", ["exact", "tf32"]>;
def UnaryFnAttr : TileEnumAttr<UnaryFn, "unary_fn">;
def BinaryFnAttr : TileEnumAttr<BinaryFn, "binary_fn">;
def ComparePredAttr : TileEnumAttr<ComparePred, "compare_pred">;
def ReduceKindAttr : TileEnumAttr<ReduceKind, "reduce_kind">;
def MmaPolicyAttr : TileEnumAttr<MmaPolicy, "mma_policy">;

#endif
