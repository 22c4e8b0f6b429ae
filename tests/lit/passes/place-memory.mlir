// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-place-memory | FileCheck %s

#l = #tgpu.layout<"core=[1024] reps=[1] reg=[(32),(64),(128),(256),(512)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#s = #tgpu.layout<"core=[32] reps=[1] reg=[] lane=[(1),(2),(4),(8),(16)] warp=[]">

// a and b live together, c after both: it takes a's place. Buffers used in a loop live through all of it.
// CHECK-LABEL: func.func @lifetimes
// CHECK-SAME: tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 8192>
// CHECK: tgpu.buffer_alloc at 0
// CHECK: tgpu.buffer_alloc at 4096
// CHECK: tgpu.buffer_alloc at 0
func.func @lifetimes(%x: tensor<1024xf32, #l>, %n: index) attributes {tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 0>} {
  %zero = tile.constant 0 : index
  %one = tile.constant 1 : index
  %a = tgpu.buffer_alloc : !tgpu.buffer<[1024], f32>
  tgpu.copy %x, %a : tensor<1024xf32, #l>, !tgpu.buffer<[1024], f32>
  scf.for %i = %zero to %n step %one {
    %y = tgpu.copy_out %a : !tgpu.buffer<[1024], f32> -> tensor<1024xf32, #l>
    %b = tgpu.buffer_alloc : !tgpu.buffer<[1024], f32>
    tgpu.copy %y, %b : tensor<1024xf32, #l>, !tgpu.buffer<[1024], f32>
  }
  %c = tgpu.buffer_alloc : !tgpu.buffer<[1024], f32>
  tgpu.copy %x, %c : tensor<1024xf32, #l>, !tgpu.buffer<[1024], f32>
  return
}

// Small buffers have bytes of their own: that saves barriers.
// CHECK-LABEL: func.func @small
// CHECK: tgpu.buffer_alloc at 0
// CHECK: tgpu.buffer_alloc at 128
func.func @small(%x: tensor<32xf32, #s>) attributes {tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 0>} {
  %a = tgpu.buffer_alloc : !tgpu.buffer<[32], f32>
  tgpu.copy %x, %a : tensor<32xf32, #s>, !tgpu.buffer<[32], f32>
  %b = tgpu.buffer_alloc : !tgpu.buffer<[32], f32>
  tgpu.copy %x, %b : tensor<32xf32, #s>, !tgpu.buffer<[32], f32>
  return
}
