// SPDX-License-Identifier: Apache-2.0
// The `tgpu` dialect: where and how. Thread layouts, shared buffers, copies, barriers, MMA atoms.
#ifndef SECTILE_TGPU_DIALECT
#define SECTILE_TGPU_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def TgpuDialect : Dialect {
  let name = "tgpu";
  let cppNamespace = "::sectile::tgpu";
  let summary = "Tile programs placed on the threads and memories of one block";
  let description = [{
    In `tgpu` form a tile is a builtin tensor whose encoding is a `#tgpu.layout`: which register of which lane of which
    warp holds which coordinate. Elementwise `tile` ops stay legal on such tensors when operands and results share
    one layout. Nothing is implicit any more: loads and stores name their bounds, reductions see identities in missing
    lanes, data that changes threads goes through buffers with barriers around them.
    The function carries `tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 32768>` and `tgpu.target = "sm_90a"`.
  }];
  let dependentDialects = ["::sectile::tileir::TileDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

def Tgpu_LayoutAttr : AttrDef<TgpuDialect, "Layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "layout";
  let summary = "Thread layout of a tile: (register, lane, warp) -> coordinates";
  let description = [{
    Wraps `sectile::Layout` (ir/base/Layout.h), in whose text form it is written:
    `#tgpu.layout<"...">`. Shape = core * reps.
    C1 (layout_c1): the text is that of a layout, in normal form, so equal layouts are equal attributes. C2 (layout_c2):
    as an encoding its shape is the tile's.
  }];
  let parameters = (ins StringRefParameter<"text form of the layout">:$text);
  let assemblyFormat = "`<` $text `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The layout itself. @pre verified.
    ::sectile::Layout layout() const;
    static LayoutAttr get(::mlir::MLIRContext *context, const ::sectile::Layout &layout);
  }];
}

def Tgpu_LaunchAttr : AttrDef<TgpuDialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "Launch geometry: warps per block, dynamic shared memory in bytes, blocks per cluster";
  let description = [{
    A program runs on the blocks of one cluster. Layouts see their warps as one list: the warp number of a layout is
    (number of the block in its cluster) * warps + (warp of the block).
    C1 (launch_c1): warps is a power of two up to 32. C2 (launch_c2): shared_bytes is not negative. C3 (launch_c3):
    cluster is a power of two up to 16.
  }];
  let parameters = (ins "int64_t":$warps, "int64_t":$sharedBytes, DefaultValuedParameter<"int64_t", "1">:$cluster);
  let builders = [AttrBuilder<(ins "int64_t":$warps, "int64_t":$sharedBytes),
                              [{ return $_get($_ctxt, warps, sharedBytes, int64_t(1)); }]>];
  let assemblyFormat = [{
    `<` `warps` `=` $warps `,` `shared_bytes` `=` $sharedBytes (`,` `cluster` `=` $cluster^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Warps that run one program, those of all blocks of a cluster: what layouts are made for.
    int64_t allWarps() const { return getWarps() * getCluster(); }
  }];
}

def Tgpu_AtomAttr : AttrDef<TgpuDialect, "Atom"> {
  let mnemonic = "atom";
  let summary = "One row of the MMA table, by name";
  let description = "C1 (atom_c1): the table (ir/base/MmaTable.cpp) has a row of that name.";
  let parameters = (ins StringRefParameter<"row name">:$name);
  let assemblyFormat = "`<` $name `>`";
  let genVerifyDecl = 1;
}

def Tgpu_BufferType : TypeDef<TgpuDialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "A tile in shared memory";
  let description = [{
    Row-major over `shape` with element type `elementType` (i1 takes one byte). With `swizzle` = [chunk, n, n row masks, column
    masks], in elements, element number row * last length + column lies at that number XOR the row masks of the bits set in
    row (the linear index of the leading coordinates) XOR the column masks of the bits set in column / (128 bytes): lanes
    that would meet in one bank are spread, chunks stay whole.
    - C1 (buffer_c1): rank is at least 1, every length at least 1, the element type one of the language. C2 (buffer_c2):
      swizzle is empty or starts with a chunk, a power of two; masks are multiples of it below 128 bytes and the
      largest power of two that divides the number of elements (the last length, if that is no power of two); rows within
      128 bytes have none.

    Written `!tgpu.buffer<[128, 64], bf16, [8, 3, 8, 16, 32]>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        OptionalArrayRefParameter<"int64_t">:$swizzle);
  let assemblyFormat = "`<` `[` $shape `]` `,` $elementType (`,` `[` $swizzle^ `]`)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes the buffer takes.
    int64_t bytes() const;
  }];
}

#endif
