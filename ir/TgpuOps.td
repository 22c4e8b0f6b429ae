// SPDX-License-Identifier: Apache-2.0
#ifndef SECTILE_TGPU_OPS
#define SECTILE_TGPU_OPS

include "TgpuDialect.td"
include "TileDialect.td"

class TgpuOp<string mnemonic, list<Trait> traits = []> : Op<TgpuDialect, mnemonic, traits>;

def Tgpu_GlobalLoadOp : TgpuOp<"global_load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "Bounded read of a tile from global memory";
  let description = [{
    result[c] = x[offsets + c] where lo_i <= c_axis_i < hi_i for every listed axis i, else `pad`. Axes that are not
    listed are proved to lie inside the tensor. Each thread reads the lanes its layout gives it (without a layout: the
    meaning alone).
    Shape: `global_load(x: rank R, offsets: R indices, axes, lo, hi) -> [D0..D(R-1)]`.
    - C1 (global_load_c1): one offset per axis. C2 (global_load_c2): rank R, x's element type. C3 (global_load_c3): axes are
      distinct, ascending, in [0, R), one lo and one hi each. C4 (global_load_c4): pad has the element type.

    Example: `%a = tgpu.global_load %A[%m, %k] axes [0, 1] lo[%z, %z] hi[%hm, %hk] pad 0.0 : bf16 :
    !tile.tensor<2, bf16> -> tensor<128x64xbf16>`
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Index>:$offsets, DenseI64ArrayAttr:$axes,
                       Variadic<Index>:$lo, Variadic<Index>:$hi, TypedAttrInterface:$pad);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = [{
    $x `[` $offsets `]` `axes` $axes `lo` `[` $lo `]` `hi` `[` $hi `]` `pad` $pad attr-dict `:` qualified(type($x)) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Tgpu_GlobalStoreOp : TgpuOp<"global_store", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "Bounded, optionally masked write of a tile to global memory";
  let description = [{
    x[offsets + c] = value[c] where lo_i <= c_axis_i < hi_i for every listed axis and mask[c] holds (if given). Lanes held by
    several threads are written by one of them.
    - C1 (global_store_c1): one offset per axis. C2 (global_store_c2): rank R, x's element type. C3 (global_store_c3): axes
      are distinct, ascending, in [0, R), one lo and one hi each. C4 (global_store_c4): mask is i1 of value's shape and layout.

    Example: `tgpu.global_store %c, %C[%m, %n] axes [0] lo[%z] hi[%h] : tensor<128x64xbf16>, !tile.tensor<2, bf16>`
  }];
  let arguments = (ins Tile_Shaped:$value, Arg<Tile_TensorType, "", [MemWrite]>:$x, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$axes, Variadic<Index>:$lo, Variadic<Index>:$hi, Optional<Tile_Shaped>:$mask);
  let assemblyFormat = [{
    $value `,` $x `[` $offsets `]` `axes` $axes `lo` `[` $lo `]` `hi` `[` $hi `]` (`mask` $mask^ `:` type($mask))?
    attr-dict `:` type($value) `,` qualified(type($x))
  }];
  let hasVerifier = 1;
}

def Tgpu_GlobalGatherOp : TgpuOp<"global_gather", [MemoryEffects<[MemRead]>]> {
  let summary = "Masked read of single elements from global memory";
  let description = [{
    result[c] = x[i0[c], ..] where mask[c] holds, else zero. Scalars among the indices mean one coordinate for all lanes. The
    mask includes the bounds.
    - C1 (global_gather_c1): one index per axis. C2 (global_gather_c2): tiles have the result's shape and layout.
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Tile_Tile>:$indices, Tile_Tile:$mask);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $x `[` $indices `]` `mask` $mask attr-dict `:` qualified(type($x)) `,` `(` type($indices) `)` `,` type($mask) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tgpu_MisalignOp : TgpuOp<"misalign", [Pure]> {
  let summary = "How far an element lies behind an aligned address";
  let description = [{
    (address of x[offsets] modulo `bytes`) / bytes of an element. A tile that starts so many elements before `offsets` on the
    axis of stride 1 starts at a multiple of `bytes`.
    - C1 (misalign_c1): one offset per axis. C2 (misalign_c2): bytes is a power of two, at least one element.

    Example: `%s = tgpu.misalign %X[%r, %z] to 16 : !tile.tensor<2, bf16>`
  }];
  let arguments = (ins Tile_TensorType:$x, Variadic<Index>:$offsets, I64Attr:$bytes);
  let results = (outs Index:$result);
  let assemblyFormat = "$x `[` $offsets `]` `to` $bytes attr-dict `:` qualified(type($x))";
  let hasVerifier = 1;
}

def Tgpu_FillOutsideOp : TgpuOp<"fill_outside", [AttrSizedOperandSegments, Pure, OneType<["x", "result"]>]> {
  let summary = "A constant in the elements outside a box";
  let description = [{
    result[c] = x[c] where lo_i <= c_axis_i < hi_i for every listed axis i, else `fill`. Threads that hold no element outside
    do nothing.
    - C1 (fill_outside_c1): axes are distinct, ascending, in [0, R), one lo and one hi each. C2 (fill_outside_c2): fill has
      the element type.

    Example: `%y = tgpu.fill_outside %x axes [1] lo[%z] hi[%h] fill 0.0 : f32 : tensor<4x256xf32>`
  }];
  let arguments = (ins Tile_Shaped:$x, DenseI64ArrayAttr:$axes, Variadic<Index>:$lo, Variadic<Index>:$hi,
                       TypedAttrInterface:$fill);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x `axes` $axes `lo` `[` $lo `]` `hi` `[` $hi `]` `fill` $fill attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Tgpu_ConvertLayoutOp : TgpuOp<"convert_layout", [Pure]> {
  let summary = "The same tile under another thread layout";
  let description = [{
    After LowerConversions only conversions that rename registers of one thread remain, and those that shuffle lanes of one
    warp as ir/base/ShufflePlan.h says.
    C1 (convert_layout_c1): shapes and element types agree, both have layouts.
  }];
  let arguments = (ins Tile_Shaped:$x);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tgpu_BitsOp : TgpuOp<"bits", [Pure]> {
  let summary = "The bits of a float as an integer of four bytes, or back";
  let description = [{
    To i32: the low bits of result[c] are those of x[c], the others zero. From i32: the low bits of x[c] are the float. A cast to
    a wider type and back would lose an infinity where casts saturate.
    - C1 (bits_c1): x and the result have one shape and layout. C2 (bits_c2): one of their element types is i32, the other a
      float of at most 4 bytes.

    Example: `%w = tgpu.bits %x : tensor<32xe5m2> -> tensor<32xi32>`
  }];
  let arguments = (ins Tile_Shaped:$x);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_BufferAllocOp : TgpuOp<"buffer_alloc"> {
  let summary = "Reserve a buffer in shared memory";
  let description = [{
    `offset`, in bytes from the start of the block's shared memory, is set by PlaceMemory; buffers whose lifetimes do not
    overlap may share it.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Res<Tgpu_BufferType, "", [MemAlloc]>:$buffer);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` qualified(type($buffer))";
}

def Tgpu_BufferViewOp : TgpuOp<"buffer_view", [Pure]> {
  let summary = "The elements of a buffer, in row-major order, under another shape";
  let description = [{
    C1 (buffer_view_c1): same element type and number of elements. C2 (buffer_view_c2): neither has a swizzle.
  }];
  let arguments = (ins Tgpu_BufferType:$buffer);
  let results = (outs Tgpu_BufferType:$result);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Tgpu_CopyOp : TgpuOp<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Registers to shared memory";
  let description = [{
    Each thread writes the lanes it holds; lanes held by several threads are written by one of them.
    C1 (copy_c1): the tile has the buffer's shape and element type.
  }];
  let arguments = (ins Tile_Shaped:$value, Arg<Tgpu_BufferType, "", [MemWrite]>:$buffer);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tgpu_CopyOutOp : TgpuOp<"copy_out", [MemoryEffects<[MemRead]>]> {
  let summary = "Shared memory to registers";
  let description = [{
    Each thread reads the lanes its layout gives it. C1 (copy_out_c1): the tile has the buffer's shape and element type.
  }];
  let arguments = (ins Arg<Tgpu_BufferType, "", [MemRead]>:$buffer);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer)) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_BarrierOp : TgpuOp<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of the block wait for each other; shared memory written before is visible after";
  let description = [{
    With `cluster`: all threads of all blocks of the cluster, and the memory of all of them.
  }];
  let arguments = (ins UnitAttr:$cluster);
  let assemblyFormat = "(`cluster` $cluster^)? attr-dict";
}

def Tgpu_ClusterStartOp : TgpuOp<"cluster_start", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until all blocks of the cluster run and can take copies from each other";
  let description = [{
    Stands once, in the body of the function itself, before the first peer_copy. Every block signals its readiness as
    it starts, so that work before this op covers the wait.
    C1 (cluster_start_c1): it is in no region of another op than the function.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tgpu_PeerCopyOp : TgpuOp<"peer_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Registers to the shared memory of every block of the cluster";
  let description = [{
    As copy, but every block's buffer gets the whole tile, whichever block's threads hold the elements. The bytes are there
    after peer_wait on the same buffer. `arrival`, set by PlaceMemory, is where the count of arrived bytes lies
    (an mbarrier of 8 bytes), in bytes from the start of the block's shared memory.
    C1 (peer_copy_c1): the tile has the buffer's shape and element type. C2 (peer_copy_c2): elements have 4 or 8 bytes.
  }];
  let arguments = (ins Tile_Shaped:$value, Arg<Tgpu_BufferType, "", [MemWrite]>:$buffer, OptionalAttr<I64Attr>:$arrival);
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$buffer),
                            [{ build($_builder, $_state, value, buffer, ::mlir::IntegerAttr()); }]>];
  let assemblyFormat = "$value `,` $buffer (`at` $arrival^)? attr-dict `:` type($value) `,` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tgpu_PeerWaitOp : TgpuOp<"peer_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until the tile that peer_copy sends has arrived in this block's buffer";
  let description = [{
    Every thread waits. One peer_wait follows each peer_copy, on every path, before the next into the same buffer.
    `arrival` is that of the peer_copy.
  }];
  let arguments = (ins Arg<Tgpu_BufferType, "", [MemRead, MemWrite]>:$buffer, OptionalAttr<I64Attr>:$arrival);
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer),
                            [{ build($_builder, $_state, buffer, ::mlir::IntegerAttr()); }]>];
  let assemblyFormat = "$buffer (`at` $arrival^)? attr-dict `:` qualified(type($buffer))";
}

def Tgpu_ReduceOp : TgpuOp<"reduce", [Pure]> {
  let summary = "Fold one axis inside each warp";
  let description = [{
    Every warp folds the lanes of `axis` that its own registers and lanes hold (butterfly over lanes, fixed order); the
    result has, along the axis, one coordinate per group of warps that split it: length = number of distinct warp parts
    along the axis, 1 when no warp bit lies on it. Result element i holds the part of the i-th group.
    argmax and argmin fold a tile of positions (index, x's shape and layout) along with the values: the greater (smaller)
    value wins, NaN above (below) all, the smaller position among equals.
    - C1 (reduce_c1): x has a layout. C2 (reduce_c2): the result's layout is x's collapsed along the axis, with the
      warp bits on the axis mapped to consecutive coordinates. C3 (reduce_c3): positions are there for argmax and argmin,
      and only there.
  }];
  let arguments = (ins ReduceKindAttr:$kind, Tile_Shaped:$x, Optional<Tile_Shaped>:$positions, I64Attr:$axis);
  let results = (outs Tile_Shaped:$result, Optional<Tile_Shaped>:$resultPositions);
  let assemblyFormat = [{
    $kind $x (`at` $positions^ `:` type($positions))? `,` $axis attr-dict `:` type($x) `->` type($result)
    (`,` type($resultPositions)^)?
  }];
  let hasVerifier = 1;
}

def Tgpu_WarpAnyOp : TgpuOp<"warp_any", [Pure]> {
  let summary = "Whether an element of a mask holds in some thread of the warp";
  let description = [{
    Warps may find different answers. The result is the condition of a branch that gives the same values whichever way a warp
    goes that has no such element; the branch does nothing for which warps wait for each other (PerWarpBranches).
    - C1 (warp_any_c1): the mask is a tile of i1.

    Example: `%rare = tgpu.warp_any %mask : tensor<128x1xi1>`
  }];
  let arguments = (ins Tile_Shaped:$mask);
  let results = (outs I1:$result);
  let assemblyFormat = "$mask attr-dict `:` type($mask)";
  let hasVerifier = 1;
}

def Tgpu_MmaSyncOp : TgpuOp<"mma_sync", [Pure, OneType<["acc", "result"]>]> {
  let summary = "Matrix product by warp-level mma.sync atoms (PTX ISA, section mma)";
  let description = [{
    Operands are in the atom's fragment layouts, repeated over the tile (warpTiled of ir/base/MmaTable.h).
    - C1 (mma_sync_c1): shapes [M, K], [K, N], [M, N]. C2 (mma_sync_c2): element types are the atom's. C3 (mma_sync_c3): M, N,
      K are multiples of the atom's. C4 (mma_sync_c4): all have layouts.

    Example: `%c = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %acc : ...`
  }];
  let arguments = (ins Tgpu_AtomAttr:$atom, Tile_Shaped:$a, Tile_Shaped:$b, Tile_Shaped:$acc);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "qualified($atom) $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

def Tgpu_MmaFmaOp : TgpuOp<"mma_fma", [OneType<["acc", "result"]>, MemoryEffects<[MemRead]>]> {
  let summary = "Matrix product by scalar multiply-adds, operands read from shared memory";
  let description = [{
    For types and shapes no MMA atom takes. result[m, n] = acc[m, n] + sum over ascending k of a[m, k] * b[k, n] with one
    fused multiply-add per step in acc's type (f16, bf16 and fp8 operands are widened to f32 first; integers to i32).
    - C1 (mma_fma_c1): shapes [M, K], [K, N], [M, N].
  }];
  let arguments = (ins Arg<Tgpu_BufferType, "", [MemRead]>:$a, Arg<Tgpu_BufferType, "", [MemRead]>:$b, Tile_Shaped:$acc);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` type($acc)";
  let hasVerifier = 1;
}

def Tgpu_SplitRangeOp : TgpuOp<"split_range", [Pure]> {
  let summary = "This program's share of a range that several programs go through";
  let description = [{
    The launch runs every program `parts` times, as blocks that differ in their part number. Of the trips of the range
    from `lower` to `upper` by `step`, part p has those numbered first = p * trips to first + trips, as far as they are
    there. With one part, first is 0 and trips -1: all of them. How many parts: the attribute, if it is not 0, else what
    fills the GPU, with at least `min_trips` trips each; 1 where the programs fill it alone. `stream`: MakePersistent may let
    blocks share the trips of several programs instead, see tgpu.shared_programs.
    - C1 (split_range_c1): at the top level of the kernel, once. C2 (split_range_c2): the launch can compute the bounds:
      each is a constant, the length of an axis of an argument, or an integer argument, and step is a constant above 0.
      C3 (split_range_c3): min_trips is at least 1, parts at least 0.

    Example: `%part, %first, %trips = tgpu.split_range %zero to %rows by %step min_trips 4 parts 0`
  }];
  let arguments = (ins Index:$lower, Index:$upper, Index:$step, I64Attr:$minTrips, I64Attr:$parts, UnitAttr:$stream);
  let results = (outs Index:$part, Index:$first, Index:$trips);
  let assemblyFormat = "$lower `to` $upper `by` $step `min_trips` $minTrips `parts` $parts attr-dict";
  let hasVerifier = 1;
}

def Tgpu_SharedProgramsOp : TgpuOp<"shared_programs", [Pure]> {
  let summary = "How many of the last programs all blocks share, trip by trip";
  let description = [{
    In a kernel with `tgpu.persistent`, each of whose programs goes through the range from `lower` to `upper` by `step`. The
    launch decides: 0, or a number for which every block has at least one trip (Stream-K: Osama et al., PPoPP 2023).
    C1 (shared_programs_c1): at the top level of the kernel, once; bounds as for tgpu.split_range.

    Example: `%shared = tgpu.shared_programs %zero to %depth by %step`
  }];
  let arguments = (ins Index:$lower, Index:$upper, Index:$step);
  let results = (outs Index:$count);
  let assemblyFormat = "$lower `to` $upper `by` $step attr-dict";
  let hasVerifier = 1;
}

def Tgpu_CombinePartsOp : TgpuOp<"combine_parts", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "What all parts of a program found, in the part that arrives last";
  let description = [{
    Every part of a program gives its values. In the part that arrives last, `last` holds and total i is value i of all
    parts put together by function i, in an order that depends on the number of parts alone; in the others `last` does not
    hold and the totals are their own values. With one part: `last` holds and the totals are the values.
    `share`: where the kernel has tgpu.shared_programs, the number of the program among those that are shared, the place of its
    first part in the workspace, the number of this part and how many there are.
    - C1 (combine_parts_c1): one function and one total per value, of the value's type. C2 (combine_parts_c2): the
      functions are add, mul, max, min, maxnum, minnum, bitand, bitor or bitxor, and defined on the elements.
      C3 (combine_parts_c3): at the top level of a kernel that has a tgpu.split_range, once; or in the loop over programs of
      one that has tgpu.shared_programs, with four numbers in `share`.

    Example: `%last, %total = tgpu.combine_parts [#tile<binary_fn add>] %sum : tensor<1x64xf32> -> tensor<1x64xf32>`
  }];
  let arguments = (ins TypedArrayAttrBase<BinaryFnAttr, "functions of two operands">:$functions,
                       Variadic<Tile_Tile>:$values, Variadic<Index>:$share);
  let results = (outs I1:$last, Variadic<Tile_Tile>:$totals);
  let assemblyFormat = "$functions $values (`of` $share^)? attr-dict `:` type($values) `->` type($totals)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The function of each value.
    ::llvm::SmallVector<::sectile::tileir::BinaryFn> functionList();
  }];
}

// --- staged operands, roles, asynchronous products
// ---------------------------------------------------------------------------------------------------

def Tgpu_StageLoadOp : TgpuOp<"stage_load", [MemoryEffects<[MemRead]>]> {
  let summary = "A box of a tensor in a shared buffer that wgmma can read";
  let description = [{
    The buffer is [panels, rows, columns]: a column is an element along the axis of stride 1, map.order[0], of which each
    panel has map.box[0]; a row stands for the coordinates along the other axes, in row-major order of the tensor's axes.
    Element (p, r, c) = x[offsets + (p * columns + c along that axis, r along the others)], zero outside the map's limits.
    SpecialiseWarps makes of it a tma_load in the producer, or with `copyBytes` an async_load, and a pipe_wait in the
    consumers.
    - C1 (stage_load_c1): one offset per axis. C2 (stage_load_c2): the map's axes are x's, the buffer has x's element
      type. C3 (stage_load_c3): the buffer is [panels, rows, columns] with columns = box[0], rows = the product of the
      other box lengths, and the swizzle of the map. C4 (stage_load_c4): copyBytes is 4, 8 or 16, at least an element, the
      map does not round, and whole copies make up a row.

    Example: `%a = tgpu.stage_load %A[%m, %k] map(#tgpu.map<..>) : !tile.tensor<2, bf16> -> !tgpu.buffer<[1, 128, 64], bf16,
    [8, 3, 8, 16, 32]>`
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Index>:$offsets, Tgpu_MapAttr:$map,
                       OptionalAttr<I64Attr>:$copyBytes);
  let results = (outs Tgpu_BufferType:$buffer);
  let assemblyFormat = "$x `[` $offsets `]` `map` `(` qualified($map) `)` attr-dict `:` qualified(type($x)) `->` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tgpu_RolesOp : TgpuOp<"roles", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "What the producer does and what the consumers do, at the same time";
  let description = [{
    The warps of layouts run `consumer`; one thread of the producer warps behind them runs `producer`, or all of their threads
    where it has an async_load, of which one does what one thread can do. All barriers of all pipes are ready before. `producer_regs` and `consumer_regs`: registers per thread (setmaxnreg), 0: as launched.
    - C1 (roles_c1): at the top level of the kernel, once, and nothing with effects behind it. C2 (roles_c2): the launch
      has producers. C3 (roles_c3): register counts are 0 or multiples of 8 from 24 to 256.
  }];
  let arguments = (ins I64Attr:$producerRegs, I64Attr:$consumerRegs);
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer);
  let assemblyFormat = [{
    `registers` $producerRegs `producer` $producer `registers` $consumerRegs `consumer` $consumer attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// All threads of the producer warps run `producer`.
    bool hasProducerThreads();
  }];
}

def Tgpu_PipeCreateOp : TgpuOp<"pipe_create"> {
  let summary = "Reserve a pipe in shared memory and start its barriers";
  let description = [{
    `offset` and `barriers`, in bytes from the start of the block's shared memory, are set by PlaceMemory. `full` and
    `empty` are the arrivals that complete a phase of the barriers: one of the producer if an acquire announces bytes, and one
    of each of its threads if there is an async_arrive; one of each consumer warp, of both blocks
    where a load into it is a multicast. The
    producer's first wait for a slot looks for the phase of parity `free`: 1, before which there is nothing to wait for.
    A pipe has three places in program order: the producer's next slot, the consumers' next slot to read, and their next
    slot to release; each starts at slot 0 of phase 0 and goes round the slots, the phase changing with each round.
    - C1 (pipe_create_c1): at the top level of the kernel. C2 (pipe_create_c2): offset is a multiple of 1024, barriers of 8.
  }];
  let arguments = (ins I64Attr:$full, I64Attr:$empty, DefaultValuedAttr<I64Attr, "1">:$free, OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<I64Attr>:$barriers);
  let results = (outs Res<Tgpu_PipeType, "", [MemAlloc]>:$pipe);
  let assemblyFormat = "`full` $full `empty` $empty (`at` $offset^ `,` $barriers)? attr-dict `:` qualified(type($pipe))";
  let hasVerifier = 1;
}

def Tgpu_PipeAcquireOp : TgpuOp<"pipe_acquire", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Producer: wait until its slot is empty, and announce the bytes that will fill it";
  let description = [{
    Waits on the slot's `empty`; then, unless `bytes` is 0, arrives on its `full` with `bytes` to come.
    C1 (pipe_acquire_c1): in the producer of a tgpu.roles.
  }];
  let arguments = (ins Tgpu_PipeType:$pipe, I64Attr:$bytes);
  let assemblyFormat = "$pipe `bytes` $bytes attr-dict `:` qualified(type($pipe))";
  let hasVerifier = 1;
}

def Tgpu_TmaLoadOp : TgpuOp<"tma_load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Producer: fill a buffer of its slot by asynchronous copies (PTX ISA, cp.async.bulk.tensor)";
  let description = [{
    Buffer number `index` of the slot gets what tgpu.stage_load describes, one copy per panel; its bytes count towards the
    slot's `full`.
    With `multicast`, in a kernel with `tgpu.pair`: the block of rank r fills half r of the buffer, of its panels where their
    number is even, else of the rows of each, from its own offsets, in the blocks of the pair whose bits are set: at the same
    places of each, where the bytes count towards the `full` of the same slot.
    - C1 (tma_load_c1): in the producer of a tgpu.roles. C2 (tma_load_c2): index is a buffer of the pipe, and it, x, offsets
      and map fit as for stage_load; halves of rows have a map for half as many. C3 (tma_load_c3): multicast is 1 to 3, in a
      kernel with tgpu.pair; halves of rows are multiples of 8.
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Index>:$offsets, Tgpu_MapAttr:$map,
                       Tgpu_PipeType:$pipe, I64Attr:$index, OptionalAttr<I64Attr>:$multicast);
  let assemblyFormat = [{
    $x `[` $offsets `]` `map` `(` qualified($map) `)` `to` $pipe `[` $index `]` (`multicast` $multicast^)? attr-dict `:`
    qualified(type($x)) `,` qualified(type($pipe))
  }];
  let extraClassDeclaration = [{
    BufferType filled() { return getPipe().getType().getBuffers()[getIndex()]; }
    /// Panels and rows of each that this block's copies fill, of the whole buffer or of its half.
    std::pair<int64_t, int64_t> panelsAndRows();
  }];
  let hasVerifier = 1;
}

def Tgpu_AsyncLoadOp : TgpuOp<"async_load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Producer: fill a buffer of its slot by copies of its threads (PTX ISA, cp.async)";
  let description = [{
    Buffer number `index` of the slot gets what tgpu.stage_load describes, `copyBytes` at a time: each copy starts at a
    multiple of so many bytes in memory, and takes what of them is inside the map's limits, zeros for the rest. The buffer
    is full when the async_arrive behind it has come, and wgmma sees it behind a fence_async of the consumers.
    - C1 (async_load_c1): in the producer of a tgpu.roles. C2 (async_load_c2): index is a buffer of the pipe, and it, x,
      offsets, map and copyBytes fit as for stage_load.
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Index>:$offsets, Tgpu_MapAttr:$map,
                       Tgpu_PipeType:$pipe, I64Attr:$index, I64Attr:$copyBytes);
  let assemblyFormat = [{
    $x `[` $offsets `]` `map` `(` qualified($map) `)` `to` $pipe `[` $index `]` `by` $copyBytes attr-dict `:`
    qualified(type($x)) `,` qualified(type($pipe))
  }];
  let hasVerifier = 1;
}

def Tgpu_AsyncArriveOp : TgpuOp<"async_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Producer: each thread arrives on the slot's `full` when its copies so far have ended";
  let description = "C1 (async_arrive_c1): in the producer of a tgpu.roles.";
  let arguments = (ins Tgpu_PipeType:$pipe);
  let assemblyFormat = "$pipe attr-dict `:` qualified(type($pipe))";
  let hasVerifier = 1;
}

def Tgpu_PipeCommitOp : TgpuOp<"pipe_commit", [MemoryEffects<[MemWrite]>]> {
  let summary = "Producer: go on to the next slot";
  let description = "C1 (pipe_commit_c1): in the producer of a tgpu.roles.";
  let arguments = (ins Tgpu_PipeType:$pipe);
  let assemblyFormat = "$pipe attr-dict `:` qualified(type($pipe))";
  let hasVerifier = 1;
}

def Tgpu_PipeWaitOp : TgpuOp<"pipe_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Consumers: wait until the next slot is full";
  let description = [{
    Every consumer thread waits. The results are the slot's buffers, readable until it is released. The place to read moves
    on by one slot.
    - C1 (pipe_wait_c1): in the consumer of a tgpu.roles. C2 (pipe_wait_c2): results are the pipe's buffers.
  }];
  let arguments = (ins Tgpu_PipeType:$pipe);
  let results = (outs Variadic<Tgpu_BufferType>:$buffers);
  let assemblyFormat = "$pipe attr-dict `:` qualified(type($pipe)) `->` qualified(type($buffers))";
  let hasVerifier = 1;
}

def Tgpu_PipeReleaseOp : TgpuOp<"pipe_release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Consumers: give back the oldest slot, if they hold more than `keep`";
  let description = [{
    Held are slots waited for and not released. Each consumer warp arrives once on the slot's `empty`, ordered behind its
    reads; with `pair` on that of the same slot of both blocks. Products that read the slot must have ended (tgpu.wgmma_wait).
    C1 (pipe_release_c1): in the consumer of a tgpu.roles; keep is at least 0; pair only in a kernel with tgpu.pair.
  }];
  let arguments = (ins Tgpu_PipeType:$pipe, I64Attr:$keep, UnitAttr:$pair);
  let assemblyFormat = "$pipe `keep` $keep (`pair` $pair^)? attr-dict `:` qualified(type($pipe))";
  let hasVerifier = 1;
}

def Tgpu_WgmmaOp : TgpuOp<"wgmma", [OneType<["acc", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Asynchronous matrix product by warpgroups (PTX ISA, wgmma.mma_async)";
  let description = [{
    result[m, n] = acc[m, n] + sum over k of a[m, k] * b[k, n], as one group of instructions that is committed. The result's
    registers are those of acc; until a tgpu.wgmma_wait that names the result, or a later result of the same chain, only
    another wgmma may take it, as acc. Operands in shared memory are buffers [panels, rows, columns] as of stage_load:
    K runs along the columns, or, with `mn`, M of a and N of b.
    `a` in registers has wgmma's fragment layout and must not change before the wait.
    - C1 (wgmma_c1): shapes [M, K], [K, N], [M, N] by buffers or tiles. C2 (wgmma_c2): the atom is a row of the kind wgmma and
      has the element types. C3 (wgmma_c3): M, N, K are whole numbers of atoms. C4 (wgmma_c4): only 16-bit
      operands may be MN-major; in registers a is K-major. C5 (wgmma_c5): rows are multiples of 8, columns
      times element size is the swizzle's span.

    Example: `%d = tgpu.wgmma #tgpu.atom<"sm90_m64n256k16_f32bf16bf16"> %a, %b mn, %acc : ...`
  }];
  let arguments = (ins Tgpu_AtomAttr:$atom, AnyTypeOf<[Tgpu_BufferType, Tile_Shaped]>:$a, UnitAttr:$aMn,
                       Arg<Tgpu_BufferType, "", [MemRead]>:$b, UnitAttr:$bMn, Tile_Shaped:$acc);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = [{
    qualified($atom) $a (`mn` $aMn^)? `,` $b (`mn` $bMn^)? `,` $acc attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` type($acc)
  }];
  let hasVerifier = 1;
}

def Tgpu_WgmmaWaitOp : TgpuOp<"wgmma_wait", [AllTypesMatch<["values", "results"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until at most `pending` groups of products are under way";
  let description = [{
    The results are the values, which are ready if their groups have ended; reads go through the results.
    C1 (wgmma_wait_c1): pending is 0 to 7. That the groups of the values are not among those left under way is for
    CheckPipeline to prove.
  }];
  let arguments = (ins I64Attr:$pending, Variadic<Tile_Shaped>:$values);
  let results = (outs Variadic<Tile_Shaped>:$results);
  let assemblyFormat = "$pending (`for` $values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def Tgpu_BulkStoreOp : TgpuOp<"bulk_store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "A tile to global memory by asynchronous copies out of shared memory (PTX ISA, cp.async.bulk.tensor)";
  let description = [{
    x[offsets + c] = value[c] inside the map's limits. Each warp puts strips of 16 rows by map.box[0] columns into its part of
    `staging`, [warps, slots, 16, columns], and lets the TMA unit copy each; a strip waits for the copy that had its slot.
    `rows`, if given, are the lengths of the tile's axes but the last, whose rows in row-major order are those of value;
    else x's last axis but one has all rows and those before it one. The copies have read shared memory before the kernel ends; they
    are ordered before nothing else of this kernel.
    - C1 (bulk_store_c1): one offset per axis. C2 (bulk_store_c2): value is [M, N] in wgmma's accumulator layout, of x's
      element type, 16 or 32 bits; 16 rows are a box of the tile, and map.box is [columns, then that box from the last axis
      of `rows` to the first]. C3 (bulk_store_c3): staging fits.
  }];
  let arguments = (ins Tile_Shaped:$value, Arg<Tile_TensorType, "", [MemWrite]>:$x, Variadic<Index>:$offsets,
                       Tgpu_MapAttr:$map, Arg<Tgpu_BufferType, "", [MemRead, MemWrite]>:$staging,
                       OptionalAttr<DenseI64ArrayAttr>:$rows);
  let extraClassDeclaration = [{
    /// `rows`, of rank - 1 entries.
    llvm::SmallVector<int64_t> rowAxes();
    /// The box of `count` consecutive rows of such axes, from the last axis to the first; empty if they are no box.
    static llvm::SmallVector<int64_t> rowBox(llvm::ArrayRef<int64_t> rows, int64_t count);
  }];
  let assemblyFormat = [{
    $value `,` $x `[` $offsets `]` `map` `(` qualified($map) `)` `through` $staging attr-dict `:` type($value) `,`
    qualified(type($x)) `,` qualified(type($staging))
  }];
  let hasVerifier = 1;
}

def Tgpu_FenceAsyncOp : TgpuOp<"fence_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "What threads wrote to shared memory is visible to wgmma and TMA behind the next barrier";
  let description = [{
    In the consumer of a tgpu.roles also: what async_loads copied into the slots that are held is visible to wgmma from here
    on, and what threads read there is behind them when a release lets the TMA unit fill them again.
  }];
  let assemblyFormat = "attr-dict";
}

// --- persistent kernels
// ---------------------------------------------------------------------------------------------------

def Tgpu_BlockNumberOp : TgpuOp<"block_number", [Pure]> {
  let summary = "The number of this block, and how many blocks the launch has";
  let description = [{
    In a kernel with `tgpu.persistent` the launch has as many blocks as the GPU runs at once, at most one per program, and
    each block goes through the programs number, number + count, ..
  }];
  let results = (outs Index:$number, Index:$count);
  let assemblyFormat = "attr-dict";
}

def Tgpu_PairRankOp : TgpuOp<"pair_rank", [Pure]> {
  let summary = "Which block of its pair this one is: 0 or 1";
  let description = [{
    In a kernel with `tgpu.pair` a launch is clusters of two blocks, and tgpu.block_number counts clusters.
  }];
  let results = (outs Index:$rank);
  let assemblyFormat = "attr-dict";
}

def Tgpu_ProgramsOp : TgpuOp<"programs", [Pure]> {
  let summary = "How many programs the iteration space has";
  let description = [{
    The product over i of ceil(dim(x, i) / sizes[i]), as for tile.grid.
    C1 (programs_c1): x is an argument, at most rank sizes, each at least 1.
  }];
  let arguments = (ins Tile_TensorType:$x, DenseI64ArrayAttr:$sizes);
  let results = (outs Index:$count);
  let assemblyFormat = "$x $sizes attr-dict `:` qualified(type($x))";
  let hasVerifier = 1;
}

def Tgpu_ProgramOp : TgpuOp<"program", [Pure]> {
  let summary = "The element offsets of a program, by its place in the order in which blocks take them";
  let description = [{
    Along the last two axes of the iteration space programs are taken in groups of `group` along the first of them, those of
    a group fastest, and every second group from the last column to the first, so that programs that run together, or one
    after the other, share rows and columns of their operands in the L2 cache; with
    group 1, and along other axes, the last axis is fastest.
    C1 (program_c1): as programs_c1, one result per size; group is at least 1.
  }];
  let arguments = (ins Index:$number, Tile_TensorType:$x, DenseI64ArrayAttr:$sizes, I64Attr:$group);
  let results = (outs Variadic<Index>:$offsets);
  let assemblyFormat = "$number `of` $x $sizes `group` $group attr-dict `:` qualified(type($x)) `->` type($offsets)";
  let hasVerifier = 1;
}

#endif
