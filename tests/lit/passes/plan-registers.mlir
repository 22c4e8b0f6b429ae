// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-plan-registers --split-input-file --verify-diagnostics | FileCheck %s

#row = #tgpu.layout<"core=[1,4096] reps=[1,1] reg=[(0,1),(0,2),(0,512),(0,1024),(0,2048)] lane=[(0,4),(0,8),(0,16),(0,32),(0,64)] warp=[(0,128),(0,256)]">

// 32 registers for the row, 26 beside them: 64 in each of 128 threads. The sum lies where x lay.
// CHECK-LABEL: func.func @row(
// CHECK-SAME: tgpu.min_blocks = 8 : i64
func.func @row(%X: !tile.tensor<2, f32>, %r: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  %y = tile.binary add %x, %x : tensor<1x4096xf32, #row>
  tgpu.global_store %y, %X[%r, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  return
}

// Two rows at once: 64 registers and 26, rounded to 96.
// CHECK-LABEL: func.func @two_rows(
// CHECK-SAME: tgpu.min_blocks = 5 : i64
func.func @two_rows(%X: !tile.tensor<2, f32>, %r: index, %s: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  %y = tgpu.global_load %X[%s, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  tgpu.global_store %x, %X[%s, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  tgpu.global_store %y, %X[%r, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  return
}

// Shared memory is the limit: 65536 bytes and what a block itself takes, three times.
// CHECK-LABEL: func.func @shared(
// CHECK-SAME: tgpu.min_blocks = 3 : i64
func.func @shared(%X: !tile.tensor<2, f32>, %r: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 65536>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  tgpu.global_store %x, %X[%r, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  return
}

// Quotients: 32 registers and 26, and 16 for the division; 8 where they are needed in 16 bits alone.
// CHECK-LABEL: func.func @divided(
// CHECK-SAME: tgpu.min_blocks = 6 : i64
func.func @divided(%X: !tile.tensor<2, f32>, %r: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  %q = tile.binary div %x, %x : tensor<1x4096xf32, #row>
  tgpu.global_store %q, %X[%r, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  return
}
// CHECK-LABEL: func.func @divided_narrow(
// CHECK-SAME: tgpu.min_blocks = 7 : i64
func.func @divided_narrow(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, bf16>, %r: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  %q = tile.binary div %x, %x : tensor<1x4096xf32, #row>
  %n = tile.cast %q : tensor<1x4096xf32, #row> -> tensor<1x4096xbf16, #row>
  tgpu.global_store %n, %Y[%r, %z] axes [] lo[] hi[] : tensor<1x4096xbf16, #row>, !tile.tensor<2, bf16>
  return
}

// One block fills the multiprocessor: nothing to ask for.
// CHECK-LABEL: func.func @alone(
// CHECK-NOT: tgpu.min_blocks
func.func @alone(%X: !tile.tensor<2, f32>, %r: index, %z: index)
    attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 200000>, tgpu.target = "sm_90a"} {
  %x = tgpu.global_load %X[%r, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<1x4096xf32, #row>
  tgpu.global_store %x, %X[%r, %z] axes [] lo[] hi[] : tensor<1x4096xf32, #row>, !tile.tensor<2, f32>
  return
}

// -----

// A product takes all registers that it can get.
#c = #tgpu.layout<"core=[16,8] reps=[1,1] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]">
#a = #tgpu.layout<"core=[16,16] reps=[1,1] reg=[(0,1),(8,0),(0,8)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]">
#b = #tgpu.layout<"core=[16,8] reps=[1,1] reg=[(1,0),(8,0)] lane=[(2,0),(4,0),(0,1),(0,2),(0,4)] warp=[]">
// CHECK-LABEL: func.func @product(
// CHECK-NOT: tgpu.min_blocks
func.func @product(%A: tensor<16x16xbf16, #a>, %B: tensor<16x8xbf16, #b>, %C: tensor<16x8xf32, #c>)
    attributes {tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  %r = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %A, %B, %C : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  return
}

// -----

// expected-error @+1 {{has no launch geometry or no known target [plan_registers_c1]; run sectile-select-mma first}}
func.func @unknown() {
  return
}
