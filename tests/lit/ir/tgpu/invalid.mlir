// SPDX-License-Identifier: Apache-2.0
// One wrong program per rule, named after the rule's label.
// RUN: sectile-opt %s --split-input-file --verify-diagnostics -o /dev/null

// expected-error @+1 {{"core=[3]" is no layout: expected reps=[count, ...] with as many entries as core before `` [layout_c1]}}
func.func @layout_c1() attributes {l = #tgpu.layout<"core=[3]">} { return }

// -----

// expected-error @+1 {{is not in normal form [layout_c1]; write "core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]"}}
func.func @layout_c1_normal_form() attributes {l = #tgpu.layout<"core=[32] reps=[2] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">} { return }

// -----

// expected-error @+1 {{shape [64] of the layout differs from shape [32] of the tile [layout_c2]}}
func.func @layout_c2(%x: tensor<32xf32, #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">>) { return }

// -----

// expected-error @+1 {{3 warps per block [launch_c1]; use a power of two from 1 to 32}}
func.func @launch_c1() attributes {l = #tgpu.launch<warps = 3, shared_bytes = 0>} { return }

// -----

// expected-error @+1 {{-1 bytes of shared memory [launch_c2]; give 0 or more}}
func.func @launch_c2() attributes {l = #tgpu.launch<warps = 1, shared_bytes = -1>} { return }

// -----

// expected-error @+1 {{3 blocks per cluster [launch_c3]; use a power of two from 1 to 16}}
func.func @launch_c3() attributes {l = #tgpu.launch<warps = 1, shared_bytes = 0, cluster = 3>} { return }

// -----

func.func @cluster_start_c1(%c: i1) {
  scf.if %c {
    // expected-error @+1 {{'tgpu.cluster_start' op is inside scf.if [cluster_start_c1]; put it in the body of the function}}
    tgpu.cluster_start
  }
  return
}

// -----

func.func @peer_copy_c1(%x: tensor<32xf32, #tgpu.layout<"core=[32] reps=[1] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">>) {
  %b = tgpu.buffer_alloc : !tgpu.buffer<[64], f32>
  // expected-error @+1 {{the tile is f32 [32], the buffer is f32 [64] [peer_copy_c1]}}
  tgpu.peer_copy %x, %b : tensor<32xf32, #tgpu.layout<"core=[32] reps=[1] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">>, !tgpu.buffer<[64], f32>
  return
}

// -----

func.func @peer_copy_c2(%x: tensor<32xf16, #tgpu.layout<"core=[32] reps=[1] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">>) {
  %b = tgpu.buffer_alloc : !tgpu.buffer<[32], f16>
  // expected-error @+1 {{elements are f16 [peer_copy_c2]; cast to a type of 4 or 8 bytes}}
  tgpu.peer_copy %x, %b : tensor<32xf16, #tgpu.layout<"core=[32] reps=[1] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">>, !tgpu.buffer<[32], f16>
  return
}

// -----

// expected-error @+1 {{the table of MMA instructions has no row "nothing" [atom_c1]}}
func.func @atom_c1() attributes {a = #tgpu.atom<"nothing">} { return }

// -----

func.func @buffer_c1() {
  // expected-error @+1 {{a buffer has at least one axis and lengths of 1 or more [buffer_c1]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[0], f32>
  return
}

// -----

func.func @buffer_c1_element() {
  // expected-error @+1 {{the language has no element type 'i24' [buffer_c1]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8], i24>
  return
}

// -----

func.func @buffer_c2() {
  // expected-error @+1 {{a swizzle is [chunk, n, n row masks, column masks], chunk a power of two [buffer_c2]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8], f32, [3, 0, 3]>
  return
}

// -----

func.func @buffer_c2_masks() {
  // expected-error @+1 {{a swizzle is [chunk, n, n row masks, column masks], chunk a power of two [buffer_c2]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8, 8], f32, [4, 2, 4]>
  return
}

// -----

func.func @buffer_c2_chunk() {
  // expected-error @+1 {{mask 2 must be a multiple of the chunk 4 below 32 [buffer_c2]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8, 64], f32, [4, 2, 4, 2]>
  return
}

// -----

func.func @buffer_c2_end() {
  // expected-error @+1 {{mask 16 must be a multiple of the chunk 4 below 16 [buffer_c2]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8, 48], f32, [4, 2, 8, 16]>
  return
}

// -----

func.func @buffer_c2_rows() {
  // expected-error @+1 {{rows within one line of 128 bytes have no mask, bit 1 has 4 [buffer_c2]}}
  %b = tgpu.buffer_alloc : !tgpu.buffer<[8, 8], f32, [4, 3, 0, 4, 8]>
  return
}

// -----

func.func @fill_outside_c1(%x: tensor<8x8xf32>, %i: index) {
  // expected-error @+1 {{axes [1, 1] of a tile of rank 2 [fill_outside_c1]; name axes of the tile in ascending order, each once}}
  %t = tgpu.fill_outside %x axes [1, 1] lo[%i, %i] hi[%i, %i] fill 0.0 : f32 : tensor<8x8xf32>
  return
}

// -----

func.func @fill_outside_c2(%x: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{fill is bf16, the tile is f32 [8] [fill_outside_c2]}}
  %t = tgpu.fill_outside %x axes [0] lo[%i] hi[%i] fill 0.0 : bf16 : tensor<8xf32>
  return
}

// -----

func.func @warp_any_c1(%x: tensor<8xf32>) {
  // expected-error @+1 {{the mask is f32 [8] [warp_any_c1]; use a tile of i1}}
  %any = tgpu.warp_any %x : tensor<8xf32>
  return
}

// -----

func.func @bits_c1(%x: tensor<8xf16>) {
  // expected-error @+1 {{the result is i32 [4], x is f16 [8] [bits_c1]; give both one shape and layout}}
  %w = tgpu.bits %x : tensor<8xf16> -> tensor<4xi32>
  return
}

// -----

func.func @bits_c2(%x: tensor<8xf64>) {
  // expected-error @+1 {{from f64 to i32 [bits_c2]; one is i32, the other a float of at most 4 bytes}}
  %w = tgpu.bits %x : tensor<8xf64> -> tensor<8xi32>
  return
}

// -----

func.func @bits_c2_integer(%x: tensor<8xi32>) {
  // expected-error @+1 {{from i32 to i32 [bits_c2]; one is i32, the other a float of at most 4 bytes}}
  %w = tgpu.bits %x : tensor<8xi32> -> tensor<8xi32>
  return
}

// -----

func.func @misalign_c1(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{1 offsets for a tensor of rank 2 [misalign_c1]}}
  %s = tgpu.misalign %x[%i] to 16 : !tile.tensor<2, f32>
  return
}

// -----

func.func @misalign_c2(%x: !tile.tensor<1, f32>, %i: index) {
  // expected-error @+1 {{24 bytes, an element has 4 [misalign_c2]; give a power of two of at least one element}}
  %s = tgpu.misalign %x[%i] to 24 : !tile.tensor<1, f32>
  return
}

// -----

func.func @global_load_c1(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{1 offsets for a tensor of rank 2 [global_load_c1]}}
  %t = tgpu.global_load %x[%i] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<8x8xf32>
  return
}

// -----

func.func @global_load_c2(%x: !tile.tensor<1, f32>, %i: index) {
  // expected-error @+1 {{the tile is bf16 [8], the tensor is f32 tensor of rank 1 [global_load_c2]}}
  %t = tgpu.global_load %x[%i] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<8xbf16>
  return
}

// -----

func.func @global_load_c3(%x: !tile.tensor<2, f32>, %i: index) {
  // expected-error @+1 {{axes [1, 0] of a tensor of rank 2 [global_load_c3]; name axes of the tensor in ascending order, each once}}
  %t = tgpu.global_load %x[%i, %i] axes [1, 0] lo[%i, %i] hi[%i, %i] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<8x8xf32>
  return
}

// -----

func.func @global_load_c3_bounds(%x: !tile.tensor<1, f32>, %i: index) {
  // expected-error @+1 {{1 axes with 0 lower and 1 upper bounds [global_load_c3]; give one lower and one upper bound per axis}}
  %t = tgpu.global_load %x[%i] axes [0] lo[] hi[%i] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<8xf32>
  return
}

// -----

func.func @global_load_c4(%x: !tile.tensor<1, f32>, %i: index) {
  // expected-error @+1 {{pad is i32, the tensor is f32 tensor of rank 1 [global_load_c4]}}
  %t = tgpu.global_load %x[%i] axes [] lo[] hi[] pad 0 : i32 : !tile.tensor<1, f32> -> tensor<8xf32>
  return
}

// -----

func.func @global_store_c1(%x: !tile.tensor<1, f32>, %t: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{2 offsets for a tensor of rank 1 [global_store_c1]}}
  tgpu.global_store %t, %x[%i, %i] axes [] lo[] hi[] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @global_store_c2(%x: !tile.tensor<1, f32>, %t: tensor<8x1xf32>, %i: index) {
  // expected-error @+1 {{the tile is f32 [8, 1], the tensor is f32 tensor of rank 1 [global_store_c2]}}
  tgpu.global_store %t, %x[%i] axes [] lo[] hi[] : tensor<8x1xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @global_store_c3(%x: !tile.tensor<1, f32>, %t: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{axes [1] of a tensor of rank 1 [global_store_c3]}}
  tgpu.global_store %t, %x[%i] axes [1] lo[%i] hi[%i] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @global_store_c4(%x: !tile.tensor<1, f32>, %t: tensor<8xf32>, %m: tensor<4xi1>, %i: index) {
  // expected-error @+1 {{the mask is bool [4], the tile is f32 [8] [global_store_c4]; give a mask of bool with the tile's shape and layout}}
  tgpu.global_store %t, %x[%i] axes [] lo[] hi[] mask %m : tensor<4xi1> : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// -----

func.func @global_gather_c1(%x: !tile.tensor<2, f32>, %i: tensor<8xindex>, %m: tensor<8xi1>) {
  // expected-error @+1 {{1 indices for a tensor of rank 2 [global_gather_c1]}}
  %v = tgpu.global_gather %x[%i] mask %m : !tile.tensor<2, f32>, (tensor<8xindex>), tensor<8xi1> -> tensor<8xf32>
  return
}

// -----

func.func @global_gather_c2(%x: !tile.tensor<1, f32>, %i: tensor<4xindex>, %m: tensor<8xi1>) {
  // expected-error @+1 {{an index is index [4], the result is f32 [8] [global_gather_c2]; give index tiles of index}}
  %v = tgpu.global_gather %x[%i] mask %m : !tile.tensor<1, f32>, (tensor<4xindex>), tensor<8xi1> -> tensor<8xf32>
  return
}

// -----

func.func @global_gather_c2_mask(%x: !tile.tensor<1, f32>, %i: tensor<8xindex>, %m: tensor<8xi32>) {
  // expected-error @+1 {{the mask is i32 [8], the result is f32 [8] [global_gather_c2]; give index tiles of index}}
  %v = tgpu.global_gather %x[%i] mask %m : !tile.tensor<1, f32>, (tensor<8xindex>), tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

func.func @convert_layout_c1(%x: tensor<64xf32>) {
  // expected-error @+1 {{x has no layout [convert_layout_c1]}}
  %y = tgpu.convert_layout %x : tensor<64xf32> -> tensor<64xf32, #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">>
  return
}

// -----

func.func @convert_layout_c1_element(%x: tensor<64xf32>) {
  // expected-error @+1 {{x is f32 [64], the result is bf16 [64] [convert_layout_c1]}}
  %y = tgpu.convert_layout %x : tensor<64xf32> -> tensor<64xbf16>
  return
}

// -----

func.func @copy_c1(%x: tensor<64xf32>, %b: !tgpu.buffer<[32], f32>) {
  // expected-error @+1 {{the tile is f32 [64], the buffer is f32 [32] [copy_c1]}}
  tgpu.copy %x, %b : tensor<64xf32>, !tgpu.buffer<[32], f32>
  return
}

// -----

func.func @buffer_view_c1(%b: !tgpu.buffer<[64], f32>) {
  // expected-error @+1 {{the buffer is f32 [64], the view is f32 [8, 4] [buffer_view_c1]}}
  %v = tgpu.buffer_view %b : !tgpu.buffer<[64], f32> -> !tgpu.buffer<[8, 4], f32>
  return
}

// -----

func.func @buffer_view_c2(%b: !tgpu.buffer<[1, 64], bf16, [8, 1, 8]>) {
  // expected-error @+1 {{a swizzled buffer has no row-major order [buffer_view_c2]; use a buffer without swizzle}}
  %v = tgpu.buffer_view %b : !tgpu.buffer<[1, 64], bf16, [8, 1, 8]> -> !tgpu.buffer<[8, 8], bf16>
  return
}

// -----

func.func @copy_out_c1(%b: !tgpu.buffer<[64], bf16>) {
  // expected-error @+1 {{the tile is f32 [64], the buffer is bf16 [64] [copy_out_c1]}}
  %x = tgpu.copy_out %b : !tgpu.buffer<[64], bf16> -> tensor<64xf32>
  return
}

// -----

func.func @reduce_c1(%x: tensor<64xf32>) {
  // expected-error @+1 {{x has no layout [reduce_c1]}}
  %y = tgpu.reduce sum %x, 0 : tensor<64xf32> -> tensor<1xf32>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
func.func @reduce_c2(%x: tensor<64xf32, #l>) {
  // expected-error @+1 {{the result's layout is not x's collapsed along axis 0 [reduce_c2]; use core=[1] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]}}
  %y = tgpu.reduce sum %x, 0 : tensor<64xf32, #l> -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
func.func @reduce_c2_axis(%x: tensor<64xf32, #l>) {
  // expected-error @+1 {{axis 1 of a tile of rank 1 [reduce_c2]}}
  %y = tgpu.reduce sum %x, 1 : tensor<64xf32, #l> -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#r = #tgpu.layout<"core=[1] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]">
func.func @reduce_c3(%x: tensor<64xf32, #l>) {
  // expected-error @+1 {{positions are missing for argmax [reduce_c3]}}
  %y = tgpu.reduce argmax %x, 0 : tensor<64xf32, #l> -> tensor<1xf32, #r>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#r = #tgpu.layout<"core=[1] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]">
func.func @reduce_c3_element(%x: tensor<64xf32, #l>, %p: tensor<64xi32, #l>) {
  // expected-error @+1 {{positions are i32 [64], values are f32 [64] [reduce_c3]; give positions of index}}
  %y, %q = tgpu.reduce argmin %x at %p : tensor<64xi32, #l>, 0 : tensor<64xf32, #l> -> tensor<1xf32, #r>, tensor<1xindex, #r>
  return
}

// -----

func.func @mma_sync_c1(%a: tensor<16x16xbf16>, %b: tensor<8x8xbf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{shapes [16, 16], [8, 8] and [16, 8] are no [M, K], [K, N] and [M, N] [mma_sync_c1]}}
  %d = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : tensor<16x16xbf16>, tensor<8x8xbf16>, tensor<16x8xf32>
  return
}

// -----

func.func @mma_sync_c2(%a: tensor<16x16xf16>, %b: tensor<16x8xf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{a is f16 [16, 16], the atom takes bf16 [mma_sync_c2]}}
  %d = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : tensor<16x16xf16>, tensor<16x8xf16>, tensor<16x8xf32>
  return
}

// -----

#a = #tgpu.layout<"core=[16,8] reps=[1,1] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]">
#b = #tgpu.layout<"core=[8,8] reps=[1,1] reg=[(1,0)] lane=[(2,0),(4,0),(0,1),(0,2),(0,4)] warp=[]">
func.func @mma_sync_c3(%a: tensor<16x8xbf16, #a>, %b: tensor<8x8xbf16, #b>, %c: tensor<16x8xf32, #a>) {
  // expected-error @+1 {{M, N, K = [16, 8, 8] are no multiples of the atom's [16, 8, 16] [mma_sync_c3]}}
  %d = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : tensor<16x8xbf16, #a>, tensor<8x8xbf16, #b>, tensor<16x8xf32, #a>
  return
}

// -----

func.func @mma_sync_c4(%a: tensor<16x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{a has no layout [mma_sync_c4]}}
  %d = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : tensor<16x16xbf16>, tensor<16x8xbf16>, tensor<16x8xf32>
  return
}

// -----

func.func @mma_fma_c1(%a: !tgpu.buffer<[16, 16], f32>, %b: !tgpu.buffer<[8, 8], f32>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{shapes [16, 16], [8, 8] and [16, 8] are no [M, K], [K, N] and [M, N] [mma_fma_c1]}}
  %d = tgpu.mma_fma %a, %b, %c : !tgpu.buffer<[16, 16], f32>, !tgpu.buffer<[8, 8], f32>, tensor<16x8xf32>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#k = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
func.func @elementwise_layouts(%x: tensor<64xf32, #l>, %y: tensor<64xf32, #k>) {
  // expected-error @+1 {{a and b have different layouts [binary_c2]; convert one of them first}}
  %z = "tile.binary"(%x, %y) <{fn = #tile<binary_fn add>}> : (tensor<64xf32, #l>, tensor<64xf32, #k>) -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
func.func @cast_layouts(%x: tensor<64xf32, #l>) {
  // expected-error @+1 {{operand and result have different layouts [cast_c1]}}
  %z = tile.cast %x : tensor<64xf32, #l> -> tensor<64xbf16>
  return
}

// -----

func.func @split_range_c1(%n: i32) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %part, %first, %trips = tgpu.split_range %z to %s by %s min_trips 4 parts 0
  %true = tile.constant true
  scf.if %true {
    // expected-error @+1 {{not the only one at the top level of its kernel [split_range_c1]}}
    %p, %f, %t = tgpu.split_range %z to %s by %s min_trips 4 parts 0
  }
  return
}

// -----

func.func @split_range_c2(%X: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %X [64] : !tile.tensor<1, f32> -> index
  %s = tile.constant 64 : index
  // expected-error @+1 {{lower is not known at the launch [split_range_c2]; use a constant, the length of an axis of an argument, or an integer argument}}
  %part, %first, %trips = tgpu.split_range %i to %s by %s min_trips 4 parts 0
  return
}

// -----

func.func @split_range_c2_step(%n: i32) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  // expected-error @+1 {{step is no constant above 0 [split_range_c2]}}
  %part, %first, %trips = tgpu.split_range %z to %z by %z min_trips 4 parts 0
  return
}

// -----

func.func @split_range_c3() attributes {tile.kernel} {
  %s = tile.constant 64 : index
  // expected-error @+1 {{min_trips 0, parts 0 [split_range_c3]; give at least 1 trip, and 0 or more parts}}
  %part, %first, %trips = tgpu.split_range %s to %s by %s min_trips 0 parts 0
  return
}

// -----

func.func @combine_parts_c1(%x: tensor<64xf32>) attributes {tile.kernel} {
  %s = tile.constant 64 : index
  %part, %first, %trips = tgpu.split_range %s to %s by %s min_trips 4 parts 0
  // expected-error @+1 {{2 functions and 1 totals for 1 values [combine_parts_c1]}}
  %last, %total = tgpu.combine_parts [#tile<binary_fn add>, #tile<binary_fn min>] %x : tensor<64xf32> -> tensor<64xf32>
  return
}

// -----

func.func @combine_parts_c2(%x: tensor<64xf32>) attributes {tile.kernel} {
  %s = tile.constant 64 : index
  %part, %first, %trips = tgpu.split_range %s to %s by %s min_trips 4 parts 0
  // expected-error @+1 {{'sub' does not put parts of f32 [64] together [combine_parts_c2]}}
  %last, %total = tgpu.combine_parts [#tile<binary_fn sub>] %x : tensor<64xf32> -> tensor<64xf32>
  return
}

// -----

func.func @combine_parts_c3(%x: tensor<64xf32>) attributes {tile.kernel} {
  // expected-error @+1 {{not the only one at the top level of a kernel with tgpu.split_range [combine_parts_c3]}}
  %last, %total = tgpu.combine_parts [#tile<binary_fn add>] %x : tensor<64xf32> -> tensor<64xf32>
  return
}

// -----

func.func @combine_parts_c3_share(%x: tensor<64xf32>, %n: i32) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %part, %first, %trips = tgpu.split_range %z to %s by %s min_trips 4 parts 0
  // expected-error @+1 {{2 numbers in 'share', not four in the loop over programs of a kernel with tgpu.shared_programs [combine_parts_c3]}}
  %last, %total = tgpu.combine_parts [#tile<binary_fn add>] %x of %z, %s : tensor<64xf32> -> tensor<64xf32>
  return
}

// -----

func.func @shared_programs_c1() attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  // expected-error @+1 {{not the only one at the top level of its kernel [shared_programs_c1]}}
  %a = tgpu.shared_programs %z to %s by %s
  %b = tgpu.shared_programs %z to %s by %s
  return
}

// -----

func.func @shared_programs_c1_bounds(%X: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %X [64] : !tile.tensor<1, f32> -> index
  %s = tile.constant 64 : index
  // expected-error @+1 {{lower is not known at the launch [shared_programs_c1]; use a constant, the length of an axis of an argument, or an integer argument}}
  %a = tgpu.shared_programs %i to %s by %s
  return
}
