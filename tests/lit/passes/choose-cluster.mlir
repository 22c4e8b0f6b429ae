// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-select-mma="warps=16" --sectile-choose-cluster --split-input-file | FileCheck %s
// RUN: sectile-opt %s --sectile-select-mma="warps=16 arch=sm_89" --sectile-choose-cluster --split-input-file | FileCheck %s --check-prefix=NONE
// NONE-NOT: cluster = {{[0-9]}}

// A row that fits one block stays there.
// CHECK-LABEL: func.func @short
// CHECK-SAME: tgpu.cluster_reason = "the largest tile has 16384 registers, a block 16384 for it"
// CHECK-SAME: tgpu.launch = #tgpu.launch<warps = 16, shared_bytes = 0>
func.func @short(%x: f32) -> f32 {
  %t = tile.splat %x : f32 -> tensor<1x16384xf32>
  %m = tile.reduce max %t, 1 : tensor<1x16384xf32> -> tensor<1x1xf32>
  %s = tile.reshape %m : tensor<1x1xf32> -> f32
  return %s : f32
}

// -----

// CHECK-LABEL: func.func @long
// CHECK-SAME: tgpu.launch = #tgpu.launch<warps = 16, shared_bytes = 0, cluster = 4>
func.func @long(%x: bf16) -> bf16 {
  %t = tile.splat %x : bf16 -> tensor<1x65536xbf16>
  %m = tile.reduce max %t, 1 : tensor<1x65536xbf16> -> tensor<1x1xbf16>
  %s = tile.reshape %m : tensor<1x1xbf16> -> bf16
  return %s : bf16
}

// -----

// No more blocks than every GPU of the target runs.
// CHECK-LABEL: func.func @longest
// CHECK-SAME: tgpu.cluster_reason = "the largest tile has 524288 registers, a block 16384 for it, sm_90a has clusters of at most 8"
// CHECK-SAME: cluster = 8>
func.func @longest(%x: f64) -> f64 {
  %t = tile.splat %x : f64 -> tensor<262144xf64>
  %m = tile.reduce sum %t, 0 : tensor<262144xf64> -> tensor<1xf64>
  %s = tile.reshape %m : tensor<1xf64> -> f64
  return %s : f64
}

// -----

// Nothing holds a row together.
// CHECK-LABEL: func.func @alone
// CHECK-SAME: tgpu.cluster_reason = "nothing is reduced"
// CHECK-SAME: shared_bytes = 0>
func.func @alone(%x: f32) -> tensor<65536xf32> {
  %t = tile.splat %x : f32 -> tensor<65536xf32>
  return %t : tensor<65536xf32>
}

// -----

// CHECK-LABEL: func.func @transposed
// CHECK-SAME: tgpu.cluster_reason = "tile.permute moves whole tiles between threads"
// CHECK-SAME: shared_bytes = 0>
func.func @transposed(%x: f32) -> tensor<1x256xf32> {
  %t = tile.splat %x : f32 -> tensor<256x256xf32>
  %p = tile.permute %t [1, 0] : tensor<256x256xf32> -> tensor<256x256xf32>
  %m = tile.reduce sum %p, 0 : tensor<256x256xf32> -> tensor<1x256xf32>
  return %m : tensor<1x256xf32>
}
