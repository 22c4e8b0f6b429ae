// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-reuse-fills | FileCheck %s

// What is outside reaches no memory: the filled value serves both users.
// CHECK-LABEL: func.func @stored
// CHECK: %[[F:.*]] = tgpu.fill_outside %arg0
// CHECK: tile.reduce max %[[F]]
// CHECK: tile.binary sub %[[F]]
func.func @stored(%x: tensor<64xf32>, %Y: !tile.tensor<1, f32>, %h: index, %k: index) {
  %z = tile.constant 0 : index
  %f = tgpu.fill_outside %x axes [0] lo[%z] hi[%h] fill 0xFF800000 : f32 : tensor<64xf32>
  %m = tile.reduce max %f, 0 : tensor<64xf32> -> tensor<1xf32>
  %b = tile.broadcast %m : tensor<1xf32> -> tensor<64xf32>
  %d = tile.binary sub %x, %b : tensor<64xf32>
  %least = tile.binary min %k, %h : index
  tgpu.global_store %d, %Y[%z] axes [0] lo[%z] hi[%least] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// A store that may reach outside, and a reduction that relies on what was there, keep the value as it was.
// CHECK-LABEL: func.func @needed
// CHECK: tgpu.fill_outside %arg0
// CHECK: tile.binary add %arg0, %arg0
// CHECK: tgpu.fill_outside %arg1
// CHECK: tile.reduce sum %arg1
func.func @needed(%x: tensor<64xf32>, %y: tensor<64xf32>, %Y: !tile.tensor<1, f32>, %h: index, %k: index) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %z = tile.constant 0 : index
  %f = tgpu.fill_outside %x axes [0] lo[%z] hi[%h] fill 0xFF800000 : f32 : tensor<64xf32>
  %m = tile.reduce max %f, 0 : tensor<64xf32> -> tensor<1xf32>
  %d = tile.binary add %x, %x : tensor<64xf32>
  tgpu.global_store %d, %Y[%z] axes [0] lo[%z] hi[%k] : tensor<64xf32>, !tile.tensor<1, f32>
  %g = tgpu.fill_outside %y axes [0] lo[%z] hi[%h] fill 0xFF800000 : f32 : tensor<64xf32>
  %n = tile.reduce max %g, 0 : tensor<64xf32> -> tensor<1xf32>
  %s = tile.reduce sum %y, 0 : tensor<64xf32> -> tensor<1xf32>
  return %m, %n, %s : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}
