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
  let summary = "Launch geometry: warps per block, dynamic shared memory in bytes, blocks per cluster, producer warps";
  let description = [{
    A program runs on the blocks of one cluster. Layouts see their warps as one list: the warp number of a layout is
    (number of the block in its cluster) * warps + (warp of the block).
    A kernel with tgpu.roles has `producers` warps more, behind the others: no layout counts them.
    C1 (launch_c1): warps is a power of two up to 32. C2 (launch_c2): shared_bytes is not negative. C3 (launch_c3):
    cluster is a power of two up to 16. C4 (launch_c4): producers is 0 or 4, and then warps is a multiple of 4.
  }];
  let parameters = (ins "int64_t":$warps, "int64_t":$sharedBytes, DefaultValuedParameter<"int64_t", "1">:$cluster,
                        DefaultValuedParameter<"int64_t", "0">:$producers);
  let builders = [AttrBuilder<(ins "int64_t":$warps, "int64_t":$sharedBytes),
                              [{ return $_get($_ctxt, warps, sharedBytes, int64_t(1), int64_t(0)); }]>,
                  AttrBuilder<(ins "int64_t":$warps, "int64_t":$sharedBytes, "int64_t":$cluster),
                              [{ return $_get($_ctxt, warps, sharedBytes, cluster, int64_t(0)); }]>];
  let assemblyFormat = [{
    `<` `warps` `=` $warps `,` `shared_bytes` `=` custom<LaunchRest>($sharedBytes, $cluster, $producers) `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Warps that run one program, those of all blocks of a cluster: what layouts are made for.
    int64_t allWarps() const { return getWarps() * getCluster(); }
    /// Warps of a block, producers included.
    int64_t blockWarps() const { return getWarps() + getProducers(); }
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

def Tgpu_MapAttr : AttrDef<TgpuDialect, "Map"> {
  let mnemonic = "map";
  let summary = "A tensor map: how the TMA unit sees a tensor argument (PTX ISA, section Tensors)";
  let description = [{
    `order` lists all axes of the tensor, the one of stride 1 first. A copy moves a box of `box`[i] elements along
    order[i]; box[0] takes `swizzle` bytes in shared memory (16: no swizzle, any multiple of 16 bytes), and its 16-byte
    pieces lie as ir/base/Fragments.h: tmaSwizzle says. `limits`, per axis of the tensor in its own order, are lengths
    that the launch computes (ir/base/LaunchExpr.h): elements at or behind them, or before 0, read as zero and are not
    written. With `tf32` the unit rounds what it loads to tf32, to nearest even (driver API, CUtensorMapDataType).
    - C1 (map_c1): order is a permutation of up to 5 axes; box and limits have its length. C2 (map_c2): swizzle is 16,
      32, 64 or 128. C3 (map_c3): box lengths are 1 to 256. C4 (map_c4): limits are expressions.

    Example: `#tgpu.map<order = [1, 0], box = [64, 128], swizzle = 128, limits = ["dim(0,0)", "min(dim(0,1),dim(1,0))"]>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$order, ArrayRefParameter<"int64_t">:$box, "int64_t":$swizzle,
                        "::mlir::ArrayAttr":$limits, DefaultValuedParameter<"bool", "false">:$tf32);
  let assemblyFormat = [{
    `<` `order` `=` `[` $order `]` `,` `box` `=` `[` $box `]` `,` `swizzle` `=` $swizzle `,` `limits` `=` $limits
    (`,` `tf32` `=` $tf32^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Tgpu_PipeType : TypeDef<TgpuDialect, "Pipe"> {
  let mnemonic = "pipe";
  let summary = "A ring of slots in shared memory through which a producer hands tiles to the consumers";
  let description = [{
    Each of `stages` slots holds one buffer of each type in `buffers`, at multiples of 1024 bytes, and two mbarriers:
    `full` completes when the slot's bytes have arrived, `empty` when all consumer warps have released it.
    C1 (pipe_c1): stages is at least 1.

    Written `!tgpu.pipe<4, !tgpu.buffer<[1, 128, 64], bf16, [8, 3, 8, 16, 32]>, ..>`.
  }];
  let parameters = (ins "int64_t":$stages, ArrayRefParameter<"::sectile::tgpu::BufferType">:$buffers);
  let assemblyFormat = "`<` $stages `,` $buffers `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Where buffer `i` lies in its slot, in bytes.
    int64_t bufferOffset(unsigned i) const;
    int64_t slotBytes() const { return bufferOffset(unsigned(getBuffers().size())); }
    /// Of all slots. The barriers come on top: 8 bytes full, then 8 bytes empty, per stage each.
    int64_t bytes() const { return getStages() * slotBytes(); }
    int64_t barrierBytes() const { return getStages() * 16; }
  }];
}

#endif
