// SPDX-License-Identifier: Apache-2.0
// One wrong program per rule, named after the rule's label.
// RUN: sectile-opt %s --split-input-file --verify-diagnostics -o /dev/null

// expected-error @+1 {{rank 6 of a tensor view is outside 1 to 5 [tensor_c1]}}
func.func @tensor_c1(%x: !tile.tensor<6, f32>) { return }

// -----

// expected-error @+1 {{the language has no element type 'i24' [tensor_c2]}}
func.func @tensor_c2(%x: !tile.tensor<1, i24>) { return }

// -----

// expected-error @+1 {{two e2m1 share a byte of memory: a tensor of them is one of ui8 [tensor_c3]}}
func.func @tensor_c3(%x: !tile.tensor<1, f4E2M1FN>) { return }

// -----

func.func @tile_of_unknown_element(%x: tensor<4xi24>) {
  // expected-error @+1 {{operand #0 must be tile or scalar, but got 'tensor<4xi24>'}}
  %y = tile.unary neg %x : tensor<4xi24> -> tensor<4xi24>
  return
}

// -----

func.func @tile_of_rank_zero(%x: tensor<f32>) {
  // expected-error @+1 {{operand #0 must be tile or scalar, but got 'tensor<f32>'}}
  %y = tile.unary neg %x : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @grid_c1(%x: !tile.tensor<2, f32>) {
  %a = tile.grid %x [64] : !tile.tensor<2, f32> -> index
  // expected-error @+1 {{the kernel has a second grid [grid_c1]; declare one grid over all axes}}
  %b = tile.grid %x [64] : !tile.tensor<2, f32> -> index
  return
}

// -----

func.func @grid_c1_nested(%x: !tile.tensor<2, f32>, %c: i1) {
  scf.if %c {
    // expected-error @+1 {{the grid stands inside a loop or a branch [grid_c1]; declare it at the kernel's top level}}
    %a = tile.grid %x [64] : !tile.tensor<2, f32> -> index
  }
  return
}

// -----

func.func @grid_c2(%x: !tile.tensor<1, f32>) {
  // expected-error @+1 {{2 sizes for a tensor of rank 1 [grid_c2]; give 1 to 1 sizes, one per leading axis}}
  %a, %b = tile.grid %x [64, 64] : !tile.tensor<1, f32> -> index, index
  return
}

// -----

func.func @grid_c2_results(%x: !tile.tensor<2, f32>) {
  // expected-error @+1 {{2 sizes but 1 results [grid_c2]}}
  %a = tile.grid %x [64, 64] : !tile.tensor<2, f32> -> index
  return
}

// -----

func.func @grid_c3(%x: !tile.tensor<2, f32>) {
  // expected-error @+1 {{size 0 of axis 1 is below 1 [grid_c3]; every size is at least 1}}
  %a, %b = tile.grid %x [64, 0] : !tile.tensor<2, f32> -> index, index
  return
}

// -----

func.func @grid_c4(%x: !tile.tensor<1, f32>, %i: index) {
  %s = tile.slice %x, 0 [%i to %i] : !tile.tensor<1, f32>
  // expected-error @+1 {{the tensor of the grid is no argument of the kernel [grid_c4]; take the whole tensor}}
  %a = tile.grid %s [64] : !tile.tensor<1, f32> -> index
  return
}

// -----

func.func @dim_c1(%x: !tile.tensor<2, f32>) {
  // expected-error @+1 {{axis 2 of a rank 2 operand [dim_c1]; axes are 0 to 1}}
  %d = tile.dim %x, 2 : !tile.tensor<2, f32>
  return
}

// -----

func.func @slice_c1(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{axis -1 of a rank 2 operand [slice_c1]; axes are 0 to 1}}
  %s = tile.slice %x, -1 [%i to %i] : !tile.tensor<2, f32>
  return
}

// -----

func.func @constant_c1() {
  // expected-error @+1 {{a value of f32 [2] with different lanes [constant_c1]; a tile constant has one value in every lane}}
  %c = tile.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return
}

// -----

func.func @load_c1(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{1 offsets for a tensor of rank 2 [load_c1]; give 2 offsets, one per axis}}
  %t = tile.load %x[%i] : !tile.tensor<2, f32> -> tensor<8x8xf32>
  return
}

// -----

func.func @load_c2(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{shape [8] has rank 1, the tensor has rank 2 [load_c2]; give 2 lengths, one per axis}}
  %t = tile.load %x[%i, %i] : !tile.tensor<2, f32> -> tensor<8xf32>
  return
}

// -----

func.func @load_c3(%x: !tile.tensor<1, f32>, %i: index) {
  // expected-error @+1 {{the result is bf16 [8], not f32 [8] [load_c3]}}
  %t = tile.load %x[%i] : !tile.tensor<1, f32> -> tensor<8xbf16>
  return
}

// -----

func.func @load_c4(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{length 0 of axis 1 in shape [8, 0] is below 1 [load_c4]; every length is at least 1}}
  %t = tile.load %x[%i, %i] : !tile.tensor<2, f32> -> tensor<8x0xf32>
  return
}

// -----

func.func @store_c1(%x: !tile.tensor<1, f32>, %t: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{2 offsets for a tensor of rank 1 [store_c1]; give 1 offsets, one per axis}}
  tile.store %t, %x[%i, %i] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @store_c2(%x: !tile.tensor<2, f32>, %t: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{the tile [8] has rank 1, the tensor has rank 2 [store_c2]; add axes of length 1}}
  tile.store %t, %x[%i, %i] : tensor<8xf32>, !tile.tensor<2, f32>
  return
}

// -----

func.func @store_c3(%x: !tile.tensor<1, bf16>, %t: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{the tile is f32, the tensor is bf16 [store_c3]; cast the tile: cast<bf16>(value)}}
  tile.store %t, %x[%i] : tensor<8xf32>, !tile.tensor<1, bf16>
  return
}

// -----

func.func @store_c4(%x: !tile.tensor<1, f32> {tile.readonly}, %t: tensor<8xf32>, %i: index) {
  %s = tile.slice %x, 0 [%i to %i] : !tile.tensor<1, f32>
  // expected-error @+1 {{the tensor of f32 is read-only [store_c4]; declare the parameter as Tensor<f32, 1> without const}}
  tile.store %t, %s[%i] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @gather_c1(%x: !tile.tensor<2, f32>, %i: tensor<8xindex>) {
  // expected-error @+1 {{1 indices for a tensor of rank 2 [gather_c1]; give 2 indices, one per axis}}
  %v = tile.gather %x[%i] : !tile.tensor<2, f32>, (tensor<8xindex>) -> tensor<8xf32>
  return
}

// -----

func.func @gather_c2(%x: !tile.tensor<1, f32>, %i: tensor<8xi32>) {
  // expected-error @+1 {{index 0 is i32 [8], not index [gather_c2]; cast it first: cast<index>(i0)}}
  %v = tile.gather %x[%i] : !tile.tensor<1, f32>, (tensor<8xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @gather_c2_shapes(%x: !tile.tensor<2, f32>, %i: tensor<8xindex>, %j: tensor<4xindex>) {
  // expected-error @+1 {{index tiles have shapes [8] and [4] [gather_c2]; broadcast the index tiles to one shape first}}
  %v = tile.gather %x[%i, %j] : !tile.tensor<2, f32>, (tensor<8xindex>, tensor<4xindex>) -> tensor<8xf32>
  return
}

// -----

func.func @gather_c2_result(%x: !tile.tensor<1, f32>, %i: tensor<8xindex>) {
  // expected-error @+1 {{the result is f32 [4], not f32 [8] [gather_c2]}}
  %v = tile.gather %x[%i] : !tile.tensor<1, f32>, (tensor<8xindex>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_c3(%x: !tile.tensor<1, f32>, %i: tensor<8xindex>) {
  // expected-error @+1 {{the result is bf16 [8], not f32 [8] [gather_c3]}}
  %v = tile.gather %x[%i] : !tile.tensor<1, f32>, (tensor<8xindex>) -> tensor<8xbf16>
  return
}

// -----

func.func @keep_c1(%m: tensor<4xi1>, %x: tensor<8xf32>) {
  // expected-error @+1 {{shape of the mask [4] differs from shape of x [8] [keep_c1]; broadcast the mask first}}
  %k = tile.keep %m, %x : tensor<4xi1>, tensor<8xf32>
  return
}

// -----

func.func @keep_c1_element(%m: tensor<8xi32>, %x: tensor<8xf32>) {
  // expected-error @+1 {{the mask is i32 [8], not bool [keep_c1]; compare it with zero first: mask != 0}}
  %k = tile.keep %m, %x : tensor<8xi32>, tensor<8xf32>
  return
}

// -----

func.func @keep_c2(%m: i1, %x: f32) {
  // expected-error @+1 {{x is a scalar of f32, not a tile of rank 1 or more [keep_c2]; use select for a scalar}}
  %k = tile.keep %m, %x : i1, f32
  return
}

// -----

func.func @fill_c1(%x: tensor<8xf32>, %v: i32) {
  // expected-error @+1 {{the tile is f32, the value is i32 [fill_c1]; cast the value: cast<f32>(value)}}
  %y = tile.fill %x, %v : tensor<8xf32>, i32
  return
}

// -----

func.func @unary_c1(%x: tensor<8xi32>) {
  // expected-error @+1 {{exp is defined on floating-point types, x is i32 [8] [unary_c1]; cast it first: cast<f32>(x)}}
  %y = tile.unary exp %x : tensor<8xi32> -> tensor<8xi32>
  return
}

// -----

func.func @unary_c1_storage(%x: tensor<8xf6E3M2FN>) {
  // expected-error @+1 {{neg is defined on numbers, x is e3m2 [8] [unary_c1]; cast it first: cast<f32>(x)}}
  %y = tile.unary neg %x : tensor<8xf6E3M2FN> -> tensor<8xf6E3M2FN>
  return
}

// -----

func.func @unary_c3(%x: tensor<8xf32>) {
  // expected-error @+1 {{x is f32 [8], the result e2m1: they have no bytes in common [unary_c3]; name a type of equally many bytes, neither bool nor index}}
  %y = tile.unary bits %x : tensor<8xf32> -> tensor<8xf4E2M1FN>
  return
}

// -----

func.func @unary_c2(%x: tensor<8xf32>) {
  // expected-error @+1 {{the result is f32 [4], not f32 [8] [unary_c2]}}
  %y = tile.unary exp %x : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @unary_c2_isnan(%x: tensor<8xf32>) {
  // expected-error @+1 {{the result is f32 [8], not bool [8] [unary_c2]}}
  %y = tile.unary isnan %x : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @binary_c1(%a: tensor<8xf32>, %b: tensor<8xbf16>) {
  // expected-error @+1 {{a is f32, b is bf16 [binary_c1]; cast one of them: cast<f32>(b)}}
  %y = "tile.binary"(%a, %b) <{fn = #tile<binary_fn add>}> : (tensor<8xf32>, tensor<8xbf16>) -> tensor<8xf32>
  return
}

// -----

func.func @binary_c2(%a: tensor<8xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{shape of a [8] differs from shape of b [4] [binary_c2]; broadcast or reshape one of them first}}
  %y = "tile.binary"(%a, %b) <{fn = #tile<binary_fn add>}> : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @binary_c3(%a: tensor<8xf32>) {
  // expected-error @+1 {{bitand is defined on integers and bool, a is f32 [8] [binary_c3]; cast it first: cast<i32>(a), and b likewise}}
  %y = tile.binary bitand %a, %a : tensor<8xf32>
  return
}

// -----

func.func @binary_c3_bool(%a: i1) {
  // expected-error @+1 {{add is defined on numbers, a is bool [binary_c3]; cast it first: cast<i32>(a), and b likewise}}
  %y = tile.binary add %a, %a : i1
  return
}

// -----

func.func @compare_c1(%a: f32, %b: i32) {
  // expected-error @+1 {{a is f32, b is i32 [compare_c1]; cast one of them: cast<f32>(b)}}
  %y = "tile.compare"(%a, %b) <{pred = #tile<compare_pred lt>}> : (f32, i32) -> i1
  return
}

// -----

func.func @compare_c2(%a: tensor<8xf32>, %b: f32) {
  // expected-error @+1 {{shape of a [8] differs from shape of b [] [compare_c2]; broadcast or reshape one of them first}}
  %y = "tile.compare"(%a, %b) <{pred = #tile<compare_pred lt>}> : (tensor<8xf32>, f32) -> tensor<8xi1>
  return
}

// -----

func.func @compare_c4(%a: tensor<8xf8E8M0FNU>) {
  // expected-error @+1 {{a and b are ue8m0 [8], which nothing is computed with [compare_c4]; cast both first: cast<f32>(a)}}
  %y = tile.compare lt %a, %a : tensor<8xf8E8M0FNU> -> tensor<8xi1>
  return
}

// -----

func.func @compare_c3(%a: tensor<8xf32>) {
  // expected-error @+1 {{the result is f32 [8], not bool [8] [compare_c3]}}
  %y = tile.compare lt %a, %a : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @select_c1(%c: tensor<8xi32>, %a: tensor<8xf32>) {
  // expected-error @+1 {{the condition is i32 [8], not bool [select_c1]; compare it with zero first: cond != 0}}
  %y = tile.select %c, %a, %a : tensor<8xi32>, tensor<8xf32>
  return
}

// -----

func.func @select_c1_shape(%c: tensor<4xi1>, %a: tensor<8xf32>) {
  // expected-error @+1 {{shape of the condition [4] differs from shape of a [8] [select_c1]; broadcast the condition first}}
  %y = tile.select %c, %a, %a : tensor<4xi1>, tensor<8xf32>
  return
}

// -----

func.func @fma_c1(%a: tensor<8xbf16>) {
  // expected-error @+1 {{fma is defined on f32 and f64, a is bf16 [8] [fma_c1]; cast a, b and c to f32}}
  %y = tile.fma %a, %a, %a : tensor<8xbf16>
  return
}

// -----

func.func @select_c2(%c: i1, %a: tensor<8xf32>, %b: tensor<8xbf16>) {
  // expected-error @+1 {{a is f32 [8], b is bf16 [8] [select_c2]; cast or broadcast b to f32 [8]}}
  %y = "tile.select"(%c, %a, %b) : (i1, tensor<8xf32>, tensor<8xbf16>) -> tensor<8xf32>
  return
}

// -----

func.func @cast_c1(%x: tensor<8xf32>) {
  // expected-error @+1 {{the result is bf16 [4], not bf16 [8] [cast_c1]}}
  %y = tile.cast %x : tensor<8xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @iota_c1() {
  // expected-error @+1 {{axis 1 of a rank 1 operand [iota_c1]; axes are 0 to 0}}
  %i = tile.iota 1 : tensor<8xindex>
  return
}

// -----

func.func @iota_c2() {
  // expected-error @+1 {{the result is i32 [8], not index [8] [iota_c2]}}
  %i = tile.iota 0 : tensor<8xi32>
  return
}

// -----

func.func @splat_c1(%x: f32) {
  // expected-error @+1 {{the scalar is f32, the tile is bf16 [8] [splat_c1]; cast the scalar first}}
  %y = tile.splat %x : f32 -> tensor<8xbf16>
  return
}

// -----

func.func @broadcast_c1(%x: tensor<8xf32>) {
  // expected-error @+1 {{rank of x [8] differs from rank of the result [8, 4] [broadcast_c1]; reshape x}}
  %y = tile.broadcast %x : tensor<8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_c1_element(%x: tensor<8x1xf32>) {
  // expected-error @+1 {{the result is bf16 [8, 4], not f32 [8, 4] [broadcast_c1]}}
  %y = tile.broadcast %x : tensor<8x1xf32> -> tensor<8x4xbf16>
  return
}

// -----

func.func @broadcast_c2(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{length 2 of x [8, 2] cannot repeat to length 4 of [8, 4] along axis 1 [broadcast_c2]; only axes of length 1 repeat}}
  %y = tile.broadcast %x : tensor<8x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @reshape_c1(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{x [8, 2] has 16 elements, the result [8] has 8 [reshape_c1]; the products of both shapes must be equal}}
  %y = tile.reshape %x : tensor<8x2xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reshape_c2(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{the result is i32 [16], not f32 [16] [reshape_c2]}}
  %y = tile.reshape %x : tensor<8x2xf32> -> tensor<16xi32>
  return
}

// -----

func.func @permute_c1(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{[0, 0] is no permutation of the 2 axes of x [8, 2] [permute_c1]; name every axis from 0 to 1 once}}
  %y = tile.permute %x [0, 0] : tensor<8x2xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @permute_c2(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{the result is f32 [8, 2], not f32 [2, 8] [permute_c2]}}
  %y = tile.permute %x [1, 0] : tensor<8x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @reduce_c1(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{axis 2 of a rank 2 operand [reduce_c1]; axes are 0 to 1}}
  %y = tile.reduce sum %x, 2 : tensor<8x2xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @reduce_c2(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{any is defined on bool, x is f32 [8, 2] [reduce_c2]; compare it with zero first: x != 0}}
  %y = tile.reduce any %x, 1 : tensor<8x2xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @reduce_c3(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{the result is f32 [8], not f32 [8, 1] [reduce_c3]}}
  %y = tile.reduce sum %x, 1 : tensor<8x2xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reduce_c3_position(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{the result is f32 [8, 1], not index [8, 1] [reduce_c3]}}
  %y = tile.reduce argmax %x, 1 : tensor<8x2xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @mma_c1(%a: tensor<128x64xbf16>, %b: tensor<32x256xbf16>, %c: tensor<128x256xf32>) {
  // expected-error @+1 {{K of a (64) differs from K of b (32) [mma_c1]; load b as [64, N]}}
  %d = tile.mma exact %a, %b, %c : tensor<128x64xbf16>, tensor<32x256xbf16>, tensor<128x256xf32>
  return
}

// -----

func.func @mma_c2(%a: tensor<128x64xbf16>, %b: tensor<64x256xbf16>, %c: tensor<64x256xf32>) {
  // expected-error @+1 {{acc is [64, 256], a times b is [128, 256] [mma_c2]; make acc [128, 256]}}
  %d = tile.mma exact %a, %b, %c : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<64x256xf32>
  return
}

// -----

func.func @mma_c3(%a: tensor<16x16xbf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
  // expected-error @+1 {{a is bf16, b is f16 [mma_c3]; cast one of them: cast<bf16>(b)}}
  %d = tile.mma exact %a, %b, %c : tensor<16x16xbf16>, tensor<16x16xf16>, tensor<16x16xf32>
  return
}

// -----

func.func @mma_c4(%a: tensor<16x16xbf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf16>) {
  // expected-error @+1 {{acc is f16, a product of bf16 accumulates in f32 [mma_c4]; make acc f32}}
  %d = tile.mma exact %a, %b, %c : tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xf16>
  return
}

// -----

func.func @mma_c4_operands(%a: tensor<16x16xi16>, %b: tensor<16x16xi16>, %c: tensor<16x16xi32>) {
  // expected-error @+1 {{no product of i16 and i16 exists [mma_c4]; cast a and b to f16}}
  %d = tile.mma exact %a, %b, %c : tensor<16x16xi16>, tensor<16x16xi16>, tensor<16x16xi32>
  return
}

// -----

func.func @mma_c5(%a: tensor<1x16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
  // expected-error @+1 {{a [1, 16, 16] has rank 3, not 2 [mma_c5]; drop or reshape axes of a until two are left}}
  %d = tile.mma exact %a, %b, %c : tensor<1x16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>
  return
}

// -----

func.func @mma_c6(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
  // expected-error @+1 {{the policy is tf32, a and b are f16 [mma_c6]; leave the policy away}}
  %d = tile.mma tf32 %a, %b, %c : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>
  return
}
