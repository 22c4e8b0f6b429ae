// SPDX-License-Identifier: Apache-2.0
// Messages of a rule beside those of invalid.mlir.
// RUN: sectile-opt %s --split-input-file --verify-diagnostics -o /dev/null

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#k = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
func.func @select_c1(%c: tensor<64xi1, #k>, %a: tensor<64xf32, #l>) {
  // expected-error @+1 {{the condition and a have different layouts [select_c1]; broadcast the condition first}}
  %y = "tile.select"(%c, %a, %a) : (tensor<64xi1, #k>, tensor<64xf32, #l>, tensor<64xf32, #l>) -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#k = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
func.func @select_c2(%c: tensor<64xi1, #l>, %a: tensor<64xf32, #l>, %b: tensor<64xf32, #k>) {
  // expected-error @+1 {{a and b have different layouts [select_c2]}}
  %y = "tile.select"(%c, %a, %b) : (tensor<64xi1, #l>, tensor<64xf32, #l>, tensor<64xf32, #k>) -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#k = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
func.func @gather_c2(%x: !tile.tensor<2, f32>, %i: tensor<64xindex, #l>, %j: tensor<64xindex, #k>) {
  // expected-error @+1 {{index tiles have different layouts [gather_c2]}}
  %y = tile.gather %x[%i, %j] : !tile.tensor<2, f32>, (tensor<64xindex, #l>, tensor<64xindex, #k>) -> tensor<64xf32, #l>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#k = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
func.func @keep_c1(%m: tensor<64xi1, #k>, %x: tensor<64xf32, #l>) {
  // expected-error @+1 {{the mask and x have different layouts [keep_c1]; convert one of them first}}
  %y = tile.keep %m, %x : tensor<64xi1, #k>, tensor<64xf32, #l>
  return
}

// -----

func.func @global_gather_c2(%x: !tile.tensor<1, f32>, %i: tensor<8xindex>, %m: tensor<8xi1>) {
  // expected-error @+1 {{the result is bf16 [8], the tensor is f32 tensor of rank 1 [global_gather_c2]}}
  %v = tgpu.global_gather %x[%i] mask %m : !tile.tensor<1, f32>, (tensor<8xindex>), tensor<8xi1> -> tensor<8xbf16>
  return
}

// -----

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#r = #tgpu.layout<"core=[1] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]">
func.func @reduce_c2(%x: tensor<64xf32, #l>) {
  // expected-error @+1 {{x is f32 [64], the result is i32 [1] [reduce_c2]}}
  %y = tgpu.reduce sum %x, 0 : tensor<64xf32, #l> -> tensor<1xi32, #r>
  return
}

// -----

func.func @mma_sync_c1(%a: tensor<16x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{the result is f32 [16, 16], acc is f32 [16, 8] [mma_sync_c1]; give both one type, layout included}}
  %d = "tgpu.mma_sync"(%a, %b, %c) <{atom = #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn">}> : (tensor<16x16xbf16>, tensor<16x8xbf16>, tensor<16x8xf32>) -> tensor<16x16xf32>
  return
}

// -----

func.func @mma_fma_c1(%a: !tgpu.buffer<[16, 16], f32>, %b: !tgpu.buffer<[16, 8], f32>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{the result is f32 [16, 16], acc is f32 [16, 8] [mma_fma_c1]}}
  %d = "tgpu.mma_fma"(%a, %b, %c) : (!tgpu.buffer<[16, 16], f32>, !tgpu.buffer<[16, 8], f32>, tensor<16x8xf32>) -> tensor<16x16xf32>
  return
}

// -----

func.func @constant_c1() {
  // expected-error @+1 {{the result is f32 [8], the value is f32 [4] [constant_c1]}}
  %a = "tile.constant"() <{value = dense<0.0> : tensor<4xf32>}> : () -> tensor<8xf32>
  return
}

// -----

// expected-error @+1 {{"core=[32] reps=[2] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]" is not in normal form [layout_c1]; write "core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]"}}
func.func @layout_c1() attributes {l = #tgpu.layout<"core=[32] reps=[2] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">} { return }

// -----

func.func @combine_parts_c1(%x: tensor<64xf32>) attributes {tile.kernel} {
  %s = tile.constant 64 : index
  %part, %first, %trips = tgpu.split_range %s to %s by %s min_trips 4 parts 0
  // expected-error @+1 {{a value is f32 [64], its total is f32 [32] [combine_parts_c1]}}
  %last, %total = tgpu.combine_parts [#tile<binary_fn add>] %x : tensor<64xf32> -> tensor<32xf32>
  return
}
