// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-select-mma --sectile-assign-layouts --sectile-lower-tile-to-tgpu --cse --split-input-file | FileCheck %s

// Warps share the row: parts of each, then all parts to all warps, one per lane.
// CHECK: #[[PARTS:.*]] = #tgpu.layout<"core=[1,4] reps=[1,1] reg=[] lane=[(0,1),(0,2),(0,0),(0,0),(0,0)] warp=[(0,0),(0,0)]">
// CHECK-LABEL: func.func @across_warps
// CHECK: %[[P:.*]] = tgpu.reduce max %{{.*}}, 1 : tensor<1x1024xf32, #{{.*}}> -> tensor<1x4xf32, #{{.*}}>
// CHECK: %[[C:.*]] = tgpu.convert_layout %[[P]]
// CHECK: tgpu.reduce max %[[C]], 1 : tensor<1x4xf32, #[[PARTS]]> -> tensor<1x1xf32, #{{.*}}>
func.func @across_warps(%x: f32) -> f32 {
  %t = tile.splat %x : f32 -> tensor<1x1024xf32>
  %m = tile.reduce max %t, 1 : tensor<1x1024xf32> -> tensor<1x1xf32>
  %s = tile.reshape %m : tensor<1x1xf32> -> f32
  return %s : f32
}

// -----

// Positions travel along with the values; sums of small floats are f32 inside.
// CHECK-LABEL: func.func @kinds
// CHECK: %[[I:.*]] = tile.iota 0 : tensor<64xindex
// CHECK: tgpu.reduce argmax %{{.*}} at %[[I]]
// CHECK: %[[W:.*]] = tile.cast %{{.*}} : tensor<64xf16, {{.*}}> -> tensor<64xf32
// CHECK: %[[S:.*]] = tgpu.reduce sum %[[W]], 0
// CHECK: tile.cast %[[S]] : tensor<1xf32, {{.*}}> -> tensor<1xf16
func.func @kinds(%x: f16) -> (index, f16) {
  %t = tile.splat %x : f16 -> tensor<64xf16>
  %m = tile.reduce argmax %t, 0 : tensor<64xf16> -> tensor<1xindex>
  %n = tile.reshape %m : tensor<1xindex> -> index
  %u = tile.reduce sum %t, 0 : tensor<64xf16> -> tensor<1xf16>
  %v = tile.reshape %u : tensor<1xf16> -> f16
  return %n, %v : index, f16
}

// -----

// With an atom: mma_sync; without: from buffers.
// CHECK-LABEL: func.func @products
// CHECK: tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn">
// CHECK: %[[A:.*]] = tgpu.buffer_alloc : !tgpu.buffer<[16, 4], f32>
// CHECK: tgpu.copy %{{.*}}, %[[A]]
// CHECK: %[[B:.*]] = tgpu.buffer_alloc : !tgpu.buffer<[4, 8], f32>
// CHECK: tgpu.copy %{{.*}}, %[[B]]
// CHECK: tgpu.mma_fma %[[A]], %[[B]]
// CHECK-NOT: tile.mma
func.func @products(%x: bf16, %y: f32, %C: !tile.tensor<2, f32>) {
  %z = tile.constant 0 : index
  %a = tile.splat %x : bf16 -> tensor<16x16xbf16>
  %b = tile.splat %x : bf16 -> tensor<16x8xbf16>
  %c = tile.splat %y : f32 -> tensor<16x8xf32>
  %r = tile.mma exact %a, %b, %c : tensor<16x16xbf16>, tensor<16x8xbf16>, tensor<16x8xf32>
  %d = tile.splat %y : f32 -> tensor<16x4xf32>
  %e = tile.splat %y : f32 -> tensor<4x8xf32>
  %s = tile.mma exact %d, %e, %r : tensor<16x4xf32>, tensor<4x8xf32>, tensor<16x8xf32>
  tgpu.global_store %s, %C[%z, %z] axes [] lo[] hi[] : tensor<16x8xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Row-major order of [3, 8] in [4, 6] is no renaming of registers: it goes through a buffer seen under both shapes.
// CHECK-LABEL: func.func @reshape
// CHECK: %[[A:.*]] = tgpu.buffer_alloc : !tgpu.buffer<[3, 8], f32>
// CHECK: %[[V:.*]] = tgpu.buffer_view %[[A]] : !tgpu.buffer<[3, 8], f32> -> !tgpu.buffer<[4, 6], f32>
// CHECK: tgpu.copy_out %[[V]]
func.func @reshape(%X: !tile.tensor<2, f32>) {
  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<3x8xf32>
  %y = tile.reshape %x : tensor<3x8xf32> -> tensor<4x6xf32>
  tgpu.global_store %y, %X[%z, %z] axes [] lo[] hi[] : tensor<4x6xf32>, !tile.tensor<2, f32>
  return
}
