// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-resolve-tails --sectile-select-mma=pipelined=false --sectile-assign-layouts --cse --split-input-file | FileCheck %s

// 16 bytes per thread, neighbouring threads side by side; one layout for all.
// CHECK: #[[L:.*]] = #tgpu.layout<"core=[1024] reps=[1] reg=[(1),(2),(128)] lane=[(4),(8),(16),(32),(64)] warp=[(256),(512)]">
// CHECK-LABEL: func.func @elementwise
// CHECK: tgpu.global_load {{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK-NOT: tgpu.convert_layout
// CHECK: tgpu.global_store {{.*}} : tensor<1024xf32, #[[L]]>
func.func @elementwise(%X: !tile.tensor<1, f32> {tile.align = 16 : i64, tile.unit_stride = 0 : i64, tile.dim_div = array<i64: 16>}) attributes {tile.kernel} {
  %i = tile.grid %X [1024] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<1024xf32>
  %y = tile.binary add %x, %x : tensor<1024xf32>
  tile.store %y, %X[%i] : tensor<1024xf32>, !tile.tensor<1, f32>
  return
}

// -----

// Nothing known of memory: single elements. Warps go along rows, so that the reduction stays inside each.
// CHECK: #[[L:.*]] = #tgpu.layout<"core=[4,256] reps=[1,1] reg=[(0,32),(0,64),(0,128)] lane=[(0,1),(0,2),(0,4),(0,8),(0,16)] warp=[(1,0),(2,0)]">
// CHECK: #[[S:.*]] = #tgpu.layout<"core=[4,1] {{.*}} lane=[(0,0),(0,0),(0,0),(0,0),(0,0)] warp=[(1,0),(2,0)]">
// CHECK-LABEL: func.func @rows
// CHECK: tile.reduce max %{{.*}}, 1 : tensor<4x256xf32, #[[L]]> -> tensor<4x1xf32, #[[S]]>
// CHECK-NOT: tgpu.convert_layout
// CHECK: tile.broadcast %{{.*}} : tensor<4x1xf32, #[[S]]> -> tensor<4x256xf32, #[[L]]>
func.func @rows(%X: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %r = tile.grid %X [4] : !tile.tensor<2, f32> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, f32> -> tensor<4x256xf32>
  %m = tile.reduce max %x, 1 : tensor<4x256xf32> -> tensor<4x1xf32>
  %b = tile.broadcast %m : tensor<4x1xf32> -> tensor<4x256xf32>
  %d = tile.binary sub %x, %b : tensor<4x256xf32>
  tile.store %d, %X[%r, %z] : tensor<4x256xf32>, !tile.tensor<2, f32>
  return
}

// -----

// A transposition: both accesses keep their order, data moves in between.
// CHECK-DAG: #[[L:.*]] = #tgpu.layout<"core=[32,64] {{.*}} lane=[(0,1),(0,2),(0,4),(0,8),(0,16)]
// CHECK-DAG: #[[T:.*]] = #tgpu.layout<"core=[64,32] {{.*}} lane=[(0,1),(0,2),(0,4),(0,8),(0,16)]
// CHECK-LABEL: func.func @transpose
// CHECK: tgpu.global_load {{.*}} -> tensor<32x64xf32, #[[L]]>
// CHECK: %[[P:.*]] = tile.permute
// CHECK: %[[C:.*]] = tgpu.convert_layout %[[P]] : {{.*}} -> tensor<64x32xf32, #[[T]]>
// CHECK: tgpu.global_store %[[C]]
func.func @transpose(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %X [32, 64] : !tile.tensor<2, f32> -> index, index
  %x = tile.load %X[%m, %n] : !tile.tensor<2, f32> -> tensor<32x64xf32>
  %t = tile.permute %x [1, 0] : tensor<32x64xf32> -> tensor<64x32xf32>
  tile.store %t, %Y[%n, %m] : tensor<64x32xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Operands go to fragments; the epilogue with a row of biases stays in the accumulator's layout.
// CHECK-LABEL: func.func @epilogue
// CHECK: %[[A:.*]] = tgpu.convert_layout
// CHECK-NEXT: %[[B:.*]] = tgpu.convert_layout
// CHECK-NEXT: tile.mma exact %[[A]], %[[B]]
// CHECK-NOT: tgpu.convert_layout
// CHECK: tgpu.global_store
func.func @epilogue(%A: !tile.tensor<2, bf16>, %B: !tile.tensor<2, bf16>, %V: !tile.tensor<1, f32>, %C: !tile.tensor<2, bf16>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !tile.tensor<2, bf16> -> index, index
  %z = tile.constant 0 : index
  %acc = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %b = tile.load %B[%z, %n] : !tile.tensor<2, bf16> -> tensor<32x64xbf16>
  %r = tile.mma exact %a, %b, %acc : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32>
  %v = tile.load %V[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  %w = tile.reshape %v : tensor<64xf32> -> tensor<1x64xf32>
  %x = tile.broadcast %w : tensor<1x64xf32> -> tensor<64x64xf32>
  %s = tile.binary add %r, %x : tensor<64x64xf32>
  %o = tile.cast %s : tensor<64x64xf32> -> tensor<64x64xbf16>
  tile.store %o, %C[%m, %n] : tensor<64x64xbf16>, !tile.tensor<2, bf16>
  return
}
