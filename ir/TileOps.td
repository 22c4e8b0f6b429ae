// SPDX-License-Identifier: Apache-2.0
// Ops of the `tile` dialect. Each: maths, shape sentence, rules C1.., one example. The rules are checked by
// ir/Rules.cpp for the verifier and for the C++ front end alike.
#ifndef SECTILE_TILE_OPS
#define SECTILE_TILE_OPS

include "TileDialect.td"

class TileOp<string mnemonic, list<Trait> traits = []> : Op<TileDialect, mnemonic, traits>;

def Tile_GridOp : TileOp<"grid", [Pure]> {
  let summary = "Element offsets of this program's tile";
  let description = [{
    Declares the iteration space: axis d of the leading `sizes.size()` axes of tensor `x` is covered by
    ceil(dim(x, d) / sizes[d]) programs, the last axis fastest. Result d is the element offset of this program
    along axis d: program number * sizes[d].

    Shape: `grid(x: rank R, sizes: [s0..sn)) -> n indices`, n <= R.
    - C1 (grid_c1): exactly one grid in a kernel, at its top level, before any other use of the iteration space.
    - C2 (grid_c2): 1 <= n <= R. C3 (grid_c3): every size is at least 1.
    - C4 (grid_c4): x is an argument of the kernel (the launch computes the grid from it).

    Example: `%m, %n = tile.grid %C [128, 256] : !tile.tensor<2, bf16> -> index, index`
  }];
  let arguments = (ins Tile_TensorType:$x, DenseI64ArrayAttr:$sizes);
  let results = (outs Variadic<Index>:$offsets);
  let assemblyFormat = "$x $sizes attr-dict `:` qualified(type($x)) `->` type($offsets)";
  let hasVerifier = 1;
}

def Tile_DimOp : TileOp<"dim", [Pure]> {
  let summary = "Run-time length of one axis of a tensor view, in elements";
  let description = [{
    Shape: `dim(x: rank R, axis) -> index`. C1 (dim_c1): 0 <= axis < R.

    Example: `%K = tile.dim %A, 1 : !tile.tensor<2, bf16>`
  }];
  let arguments = (ins Tile_TensorType:$x, I64Attr:$axis);
  let results = (outs Index:$length);
  let assemblyFormat = "$x `,` $axis attr-dict `:` qualified(type($x))";
  let hasVerifier = 1;
}

def Tile_SliceOp : TileOp<"slice", [Pure, OneType<["x", "result"]>]> {
  let summary = "The sub-tensor of coordinates lo <= i < hi of one axis";
  let description = [{
    A view of the same memory whose axis starts at `lo` and has length hi - lo, both clamped to [0, dim] (hi < lo
    gives length 0). Tails of loads and stores behave as at the end of a tensor.
    Shape: `slice(x: rank R, axis, lo, hi) -> rank R`. C1 (slice_c1): 0 <= axis < R.

    Example: `%s = tile.slice %A, 0 [%lo to %hi] : !tile.tensor<2, bf16>`
  }];
  let arguments = (ins Tile_TensorType:$x, I64Attr:$axis, Index:$lo, Index:$hi);
  let results = (outs Tile_TensorType:$result);
  let assemblyFormat = "$x `,` $axis `[` $lo `to` $hi `]` attr-dict `:` qualified(type($x))";
  let hasVerifier = 1;
}

def Tile_ConstantOp : TileOp<"constant", [Pure, ConstantLike, OneType<["value", "result"]>]> {
  let summary = "A scalar, or a tile with one value in every lane";
  let description = [{
    Shape: `constant(value) -> scalar | [D0..]`, the type of `value`, which is an integer or float attribute or a
    splat of elements. All lanes exist. Rules: C1 (constant_c1): a tile value is a splat.

    Example: `%z = tile.constant dense<0.0> : tensor<128x256xf32>`
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "attr-dict $value";
  let builders = [OpBuilder<(ins "::mlir::TypedAttr":$value), [{ build($_builder, $_state, value.getType(), value); }]>];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_LoadOp : TileOp<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "Read a tile from a tensor view";
  let description = [{
    result[c] = x[offsets + c]. A lane whose coordinate falls outside [0, dim) of any axis does not exist: the
    result's extents along axis d are [max(0, -offset_d), min(shape_d, dim_d - offset_d)).
    Shape: `load(x: rank R, offsets: R indices) -> [D0..D(R-1)]`.
    - C1 (load_c1): one offset per axis of x. C2 (load_c2): the tile has rank R.
    - C3 (load_c3): the tile has x's element type. C4 (load_c4): every length is at least 1.

    Example: `%a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<128x64xbf16>`
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Index>:$offsets);
  let results = (outs Tile_Loaded:$result);
  let assemblyFormat = "$x `[` $offsets `]` attr-dict `:` qualified(type($x)) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_StoreOp : TileOp<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Write a tile to a tensor view";
  let description = [{
    x[offsets + c] = value[c] for every lane c that exists in `value` and lies in [0, dim) of every axis of x.
    Shape: `store(value: [D0..D(R-1)], x: rank R, offsets: R indices)`.
    - C1 (store_c1): one offset per axis of x. C2 (store_c2): the tile has rank R.
    - C3 (store_c3): the tile has x's element type. C4 (store_c4): x is not read-only.

    Example: `tile.store %c, %C[%m, %n] : tensor<128x256xbf16>, !tile.tensor<2, bf16>`
  }];
  let arguments = (ins Tile_Shaped:$value, Arg<Tile_TensorType, "", [MemWrite]>:$x, Variadic<Index>:$offsets);
  let assemblyFormat = "$value `,` $x `[` $offsets `]` attr-dict `:` type($value) `,` qualified(type($x))";
  let hasVerifier = 1;
}

def Tile_GatherOp : TileOp<"gather", [MemoryEffects<[MemRead]>]> {
  let summary = "Read single elements of a tensor view at coordinates given by index tiles";
  let description = [{
    result[c] = x[i0[c], .., i(R-1)[c]]. A lane exists where all index lanes exist and every coordinate lies in
    [0, dim): lanes that fall outside are masked. Index tiles all have the result's shape (scalars are allowed and
    mean the same coordinate for every lane).
    Shape: `gather(x: rank R, R indices of [D0..] or scalar) -> [D0..]`.
    - C1 (gather_c1): one index per axis of x. C2 (gather_c2): index tiles have element type index and the result's
      shape. C3 (gather_c3): the result has x's element type.

    Example: `%v = tile.gather %X[%i] : !tile.tensor<1, f32>, (tensor<64xindex>) -> tensor<64xf32>`
  }];
  let arguments = (ins Arg<Tile_TensorType, "", [MemRead]>:$x, Variadic<Tile_Tile>:$indices);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$x `[` $indices `]` attr-dict `:` qualified(type($x)) `,` `(` type($indices) `)` `->` type($result)";
  let hasVerifier = 1;
}

def Tile_KeepOp : TileOp<"keep", [Pure, OneType<["x", "result"]>]> {
  let summary = "Keep the lanes where the mask holds; the others do not exist";
  let description = [{
    result = x, with the mask of x and `mask` (missing lanes of `mask` count as false).
    Shape: `keep(mask: [D0..] of i1, x: [D0..]) -> [D0..]`.
    C1 (keep_c1): mask is i1 and has x's shape. C2 (keep_c2): x is a tile of rank 1 or more.

    Example: `%y = tile.keep %m, %x : tensor<64xi1>, tensor<64xf32>`
  }];
  let arguments = (ins Tile_Tile:$mask, Tile_Tile:$x);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$mask `,` $x attr-dict `:` type($mask) `,` type($x)";
  let hasVerifier = 1;
}

def Tile_FillOp : TileOp<"fill", [Pure, OneType<["x", "result"]>]> {
  let summary = "Give missing lanes a value; afterwards all lanes exist";
  let description = [{
    result[c] = x[c] where lane c exists, else value. Shape: `fill(x: [D0..], value: scalar) -> [D0..]`.
    C1 (fill_c1): value has x's element type.

    Example: `%y = tile.fill %x, %zero : tensor<64xf32>, f32`
  }];
  let arguments = (ins Tile_Shaped:$x, Tile_Scalar:$value);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x `,` $value attr-dict `:` type($x) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_UnaryOp : TileOp<"unary", [Pure]> {
  let summary = "Elementwise function of one tile";
  let description = [{
    result[c] = fn(x[c]). Floats of 8 and 16 bits compute in f32 and round once to nearest even.
    neg, abs: floats (sign bit only) and signed integers (wrap; unsigned neg wraps, abs is the identity).
    exp, exp2, log, log2, sqrt, rsqrt, sin, cos, tanh, erf, sigmoid: floats; sqrt is correctly rounded, the others
    within the ulp bounds of docs/language.md. floor, ceil, round (half to even), trunc: floats.
    bitnot: integers and i1. isnan, isinf: floats, result i1.
    bits: the same bits as another type of equally many bytes, neither of them i1 or index; to types of 4 and 6 bits the
    others of the byte become zero.
    Shape: `unary(x: [D0..]) -> [D0..]`.
    - C1 (unary_c1): fn is defined on the element type. C2 (unary_c2): the result has x's shape, and x's element
      type (i1 for isnan and isinf). C3 (unary_c3): bits keeps the number of bytes.

    Example: `%e = tile.unary exp %x : tensor<64xf32> -> tensor<64xf32>`
  }];
  let arguments = (ins UnaryFnAttr:$fn, Tile_Tile:$x);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$fn $x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_BinaryOp : TileOp<"binary", [Pure, OneType<["a", "b", "result"]>]> {
  let summary = "Elementwise function of two tiles";
  let description = [{
    result[c] = fn(a[c], b[c]). Floats of 8 and 16 bits compute in f32 and round once to nearest even. Integers wrap
    modulo 2^bits; div and rem truncate toward zero (x / 0 = 0, x rem 0 = x, min / -1 = min), floordiv and floormod
    round down; a = (a fn b) * b + (a mod b) for both pairs. rem of floats is exact, with a's
    sign (fmod). max and min propagate NaN (and -0 < +0); maxnum and
    minnum return the other operand. shl, shr: a shift outside [0, bits) gives 0, or the sign for shr of a negative
    signed value; shr is arithmetic on signed types. bitand, bitor, bitxor: integers and i1. max and min on i1: or, and.
    Defined on numbers: add, sub, mul, div, rem, max, min, maxnum, minnum; on integers (index is one) alone: floordiv,
    floormod, shl, shr and the bit functions; on floats alone: pow.
    Shape: `binary(a: [D0..], b: [D0..]) -> [D0..]`.
    - C1 (binary_c1): a and b have one element type. C2 (binary_c2): and one shape. C3 (binary_c3): fn is defined on it.

    Example: `%s = tile.binary add %a, %b : tensor<64xf32>`
  }];
  let arguments = (ins BinaryFnAttr:$fn, Tile_Tile:$a, Tile_Tile:$b);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$fn $a `,` $b attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_CompareOp : TileOp<"compare", [Pure, OneType<["a", "b"]>]> {
  let summary = "Elementwise comparison";
  let description = [{
    result[c] = a[c] pred b[c]. Floats: IEEE (any comparison with NaN is false, ne is true). i1: false < true. Not on types
    of storage.
    Shape: `compare(a: [D0..], b: [D0..]) -> [D0..] of i1`.
    - C1 (compare_c1): a and b have one element type. C2 (compare_c2): and one shape. C3 (compare_c3): the result is
      i1 of that shape. C4 (compare_c4): the element type is computed with.

    Example: `%m = tile.compare lt %a, %b : tensor<64xf32> -> tensor<64xi1>`
  }];
  let arguments = (ins ComparePredAttr:$pred, Tile_Tile:$a, Tile_Tile:$b);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$pred $a `,` $b attr-dict `:` type($a) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_SelectOp : TileOp<"select", [Pure, OneType<["a", "b", "result"]>]> {
  let summary = "Elementwise choice";
  let description = [{
    result[c] = cond[c] ? a[c] : b[c]. Lanes exist where all three exist.
    Shape: `select(cond: [D0..] of i1, a: [D0..], b: [D0..]) -> [D0..]`; cond may be a scalar.
    - C1 (select_c1): cond is i1 with a's shape, or a scalar. C2 (select_c2): a and b have one type.

    Example: `%y = tile.select %m, %a, %b : tensor<64xi1>, tensor<64xf32>`
  }];
  let arguments = (ins Tile_Tile:$cond, Tile_Tile:$a, Tile_Tile:$b);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$cond `,` $a `,` $b attr-dict `:` type($cond) `,` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_FmaOp : TileOp<"fma", [Pure, AllTypesMatch<["a", "b", "c", "result"]>]> {
  let summary = "Elementwise product and sum, rounded once";
  let description = [{
    result[c] = a[c] * b[c] + c[c], rounded once to nearest even.
    Shape: `fma(a: [D0..], b: [D0..], c: [D0..]) -> [D0..]`.
    - C1 (fma_c1): a, b and c have one type, of f32 or f64.

    Example: `%y = tile.fma %a, %b, %c : tensor<64xf32>`
  }];
  let arguments = (ins Tile_Tile:$a, Tile_Tile:$b, Tile_Tile:$c);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_CastOp : TileOp<"cast", [Pure]> {
  let summary = "Elementwise conversion between element types";
  let description = [{
    Float to float: one rounding to nearest even, straight from the source format; to f8E4M3FN and f8E5M2 finite values
    and infinities saturate, NaN stays NaN; to f16, bf16, f32 overflow gives infinity. To f4E2M1FN, f6E2M3FN and f6E3M2FN
    all saturates, NaN is the largest value; to f8E8M0FNU the magnitude is rounded toward zero to a power of two from
    2^-127 to 2^127, NaN stays NaN. Float to integer: toward zero, saturating, NaN gives 0. Integer to float: one rounding to nearest even. Integer to integer: wraps modulo 2^bits.
    Anything to i1: != 0 (NaN is true). i1 to a number: 0 or 1.
    Shape: `cast(x: [D0..]) -> [D0..]`. C1 (cast_c1): the result has x's shape.

    Example: `%y = tile.cast %x : tensor<64xf32> -> tensor<64xbf16>`
  }];
  let arguments = (ins Tile_Tile:$x);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_IotaOp : TileOp<"iota", [Pure]> {
  let summary = "The coordinate along one axis";
  let description = [{
    result[c] = c_axis, of element type index. Shape: `iota(axis) -> [D0..] of index`. C1 (iota_c1): 0 <= axis < rank.
    C2 (iota_c2): element type index.

    Example: `%i = tile.iota 0 : tensor<64x1xindex>`
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_SplatOp : TileOp<"splat", [Pure]> {
  let summary = "A scalar in every lane of a tile";
  let description = [{
    Shape: `splat(x: scalar) -> [D0..]`. C1 (splat_c1): the result has x's element type. All lanes exist.

    Example: `%t = tile.splat %x : f32 -> tensor<64xf32>`
  }];
  let arguments = (ins Tile_Scalar:$x);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_BroadcastOp : TileOp<"broadcast", [Pure]> {
  let summary = "Repeat a tile along its axes of length 1";
  let description = [{
    result[c] = x[c with 0 where x has length 1]. An axis that is repeated has all its lanes if x's one lane exists,
    none if it does not.
    Shape: `broadcast(x: [D0..] with some D = 1) -> [E0..]`, equal rank.
    - C1 (broadcast_c1): equal rank and element type. C2 (broadcast_c2): each D is 1 or equals E.

    Example: `%y = tile.broadcast %x : tensor<64x1xf32> -> tensor<64x128xf32>`
  }];
  let arguments = (ins Tile_Shaped:$x);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ReshapeOp : TileOp<"reshape", [Pure]> {
  let summary = "The same lanes in row-major order under another shape";
  let description = [{
    Lane number n (row-major) of the result is lane number n of x, and exists where that one exists. Adding and
    dropping axes of length 1 keeps extents; other reshapes turn incomplete extents into a mask. From and to scalars
    is allowed for shapes of one element.
    Shape: `reshape(x: [D0..]) -> [E0..]`. C1 (reshape_c1): the products of both shapes are equal. C2 (reshape_c2):
    one element type.

    Example: `%y = tile.reshape %x : tensor<1x64xf32> -> tensor<64xf32>`
  }];
  let arguments = (ins Tile_Tile:$x);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_PermuteOp : TileOp<"permute", [Pure]> {
  let summary = "Reorder the axes";
  let description = [{
    Axis d of the result is axis perm[d] of x. Shape: `permute(x: [D0..]) -> [D(perm[0])..]`.
    - C1 (permute_c1): perm is a permutation of the axes. C2 (permute_c2): the result has that shape and x's element
      type.

    Example: `%y = tile.permute %x [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>`
  }];
  let arguments = (ins Tile_Shaped:$x, DenseI64ArrayAttr:$perm);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$x $perm attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ReduceOp : TileOp<"reduce", [Pure]> {
  let summary = "Fold one axis";
  let description = [{
    result[.., 0, ..] = kind over the existing lanes of the axis; the axis stays with length 1 and exists. A result
    none of whose lanes exists is the identity: sum 0, prod 1, max -inf (smallest integer), min +inf (largest), any
    false, all true, argmax and argmin 0. max, min propagate NaN, maxnum, minnum ignore it (all NaN gives NaN). argmax and
    argmin give the first position (element type index); NaN counts as the largest (smallest). any, all: i1. sum and
    prod of floats of 8 and 16 bits accumulate in f32 and round once; the order of additions is not specified, but
    fixed for one configuration.
    any and all are defined on i1, the others on numbers.
    Shape: `reduce(x: [D0..], axis) -> [D0.., 1, ..]`.
    - C1 (reduce_c1): 0 <= axis < rank. C2 (reduce_c2): kind is defined on the element type. C3 (reduce_c3): the result
      has x's shape with length 1 on the axis, and its element type (index for argmax and argmin).

    Example: `%s = tile.reduce sum %x, 1 : tensor<64x128xf32> -> tensor<64x1xf32>`
  }];
  let arguments = (ins ReduceKindAttr:$kind, Tile_Shaped:$x, I64Attr:$axis);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$kind $x `,` $axis attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_MmaOp : TileOp<"mma", [Pure, OneType<["acc", "result"]>]> {
  let summary = "Matrix product with accumulation";
  let description = [{
    result[m, n] = acc[m, n] + sum over k of a[m, k] * b[k, n]. Products are exact; sums are in acc's type (f16
    accumulates in f32 and rounds once at the end). K lanes missing on either side add nothing. Rows exist where
    a's and acc's exist, columns where b's and acc's. Policy `exact`: f32 operands keep all their bits; `tf32`: f32
    operands may be rounded to tf32 (10 fraction bits, nearest even) first.
    Shape: `mma(a: [M, K], b: [K, N], acc: [M, N]) -> [M, N]`.
    - C1 (mma_c1): K of a equals K of b. C2 (mma_c2): acc is [M, N]. C3 (mma_c3): a and b have one element type
      (e4m3 and e5m2 may mix). C4 (mma_c4): acc's type fits: f32 for f16, bf16, e4m3, e5m2, f32; f16 also for f16; f64
      for f64; i32 for i8 and ui8. C5 (mma_c5): rank 2. C6 (mma_c6): tf32 needs f32 operands.

    Example: `%c = tile.mma exact %a, %b, %acc : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<128x256xf32>`
  }];
  let arguments = (ins MmaPolicyAttr:$policy, Tile_Shaped:$a, Tile_Shaped:$b, Tile_Shaped:$acc);
  let results = (outs Tile_Shaped:$result);
  let assemblyFormat = "$policy $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

#endif
