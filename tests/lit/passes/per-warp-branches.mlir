// SPDX-License-Identifier: Apache-2.0
// A rare branch whose ways agree in rows without an element of the mask: each warp asks its own threads.
// RUN: sectile-opt %s --sectile-select-mma=warps=4 --sectile-assign-layouts --sectile-lower-tile-to-tgpu -cse --sectile-lower-conversions --sectile-per-warp-branches | FileCheck %s

!T = !tile.tensor<2, f32>

// CHECK-LABEL: func.func @rescale
// CHECK-NOT: tgpu.buffer_alloc
// CHECK: %[[RARE:.*]] = tgpu.warp_any
// CHECK-NOT: tgpu.buffer_alloc
// CHECK: scf.if %[[RARE]]
// CHECK: tgpu.reduce max
func.func @rescale(%X: !T, %TOP: !T, %BOUND: !T, %O0: !T, %O1: !T) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x32xf32>
  %top = tgpu.global_load %TOP[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x1xf32>
  %bound = tgpu.global_load %BOUND[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x1xf32>
  %one = tile.constant dense<1.0> : tensor<64x1xf32>
  %sum = tile.reduce sum %x, 1 : tensor<64x32xf32> -> tensor<64x1xf32>
  %late = tile.compare gt %sum, %bound : tensor<64x1xf32> -> tensor<64x1xi1>
  %any0 = tile.reduce any %late, 0 : tensor<64x1xi1> -> tensor<1x1xi1>
  %any = tile.reshape %any0 : tensor<1x1xi1> -> i1
  %r:2 = scf.if %any -> (tensor<64x32xf32>, tensor<64x1xf32>) {
    %most = tile.reduce max %x, 1 : tensor<64x32xf32> -> tensor<64x1xf32>
    %next = tile.select %late, %most, %top : tensor<64x1xi1>, tensor<64x1xf32>
    %less = tile.binary sub %top, %next : tensor<64x1xf32>
    %factor = tile.select %late, %less, %one : tensor<64x1xi1>, tensor<64x1xf32>
    %factors = tile.broadcast %factor : tensor<64x1xf32> -> tensor<64x32xf32>
    %scaled = tile.binary mul %x, %factors : tensor<64x32xf32>
    scf.yield %scaled, %next : tensor<64x32xf32>, tensor<64x1xf32>
  } else {
    scf.yield %x, %top : tensor<64x32xf32>, tensor<64x1xf32>
  }
  tgpu.global_store %r#0, %O0[%z, %z] axes [] lo[] hi[] : tensor<64x32xf32>, !T
  tgpu.global_store %r#1, %O1[%z, %z] axes [] lo[] hi[] : tensor<64x1xf32>, !T
  return
}

// Rows that the mask leaves out come out changed: all threads go one way.
// CHECK-LABEL: func.func @changes
// CHECK-NOT: tgpu.warp_any
// CHECK: return
func.func @changes(%X: !T, %BOUND: !T, %O0: !T) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x32xf32>
  %bound = tgpu.global_load %BOUND[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x1xf32>
  %sum = tile.reduce sum %x, 1 : tensor<64x32xf32> -> tensor<64x1xf32>
  %late = tile.compare gt %sum, %bound : tensor<64x1xf32> -> tensor<64x1xi1>
  %any0 = tile.reduce any %late, 0 : tensor<64x1xi1> -> tensor<1x1xi1>
  %any = tile.reshape %any0 : tensor<1x1xi1> -> i1
  %r = scf.if %any -> tensor<64x32xf32> {
    %double = tile.binary add %x, %x : tensor<64x32xf32>
    scf.yield %double : tensor<64x32xf32>
  } else {
    scf.yield %x : tensor<64x32xf32>
  }
  tgpu.global_store %r, %O0[%z, %z] axes [] lo[] hi[] : tensor<64x32xf32>, !T
  return
}

// A reduction along the rows' own axis mixes them.
// CHECK-LABEL: func.func @mixes
// CHECK-NOT: tgpu.warp_any
// CHECK: return
func.func @mixes(%X: !T, %TOP: !T, %BOUND: !T, %O0: !T) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x32xf32>
  %top = tgpu.global_load %TOP[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x1xf32>
  %bound = tgpu.global_load %BOUND[%z, %z] axes [] lo[] hi[] pad 0.0 : f32 : !T -> tensor<64x1xf32>
  %sum = tile.reduce sum %x, 1 : tensor<64x32xf32> -> tensor<64x1xf32>
  %late = tile.compare gt %sum, %bound : tensor<64x1xf32> -> tensor<64x1xi1>
  %any0 = tile.reduce any %late, 0 : tensor<64x1xi1> -> tensor<1x1xi1>
  %any = tile.reshape %any0 : tensor<1x1xi1> -> i1
  %r = scf.if %any -> tensor<64x1xf32> {
    %most = tile.reduce max %top, 0 : tensor<64x1xf32> -> tensor<1x1xf32>
    %all = tile.broadcast %most : tensor<1x1xf32> -> tensor<64x1xf32>
    %next = tile.select %late, %all, %top : tensor<64x1xi1>, tensor<64x1xf32>
    scf.yield %next : tensor<64x1xf32>
  } else {
    scf.yield %top : tensor<64x1xf32>
  }
  tgpu.global_store %r, %O0[%z, %z] axes [] lo[] hi[] : tensor<64x1xf32>, !T
  return
}
