// SPDX-License-Identifier: Apache-2.0
// Tiles over rows that start anywhere begin at an aligned address.
// RUN: sectile-opt %s --sectile-align-rows | FileCheck %s

// Rows 4001 elements apart: stride 1 modulo 8. The second tensor lies alike, the third does not.
// CHECK-LABEL: func.func @rows
// CHECK: %[[S:.*]] = tgpu.misalign %arg0[%[[R:.*]], %{{.*}}] to 16
// CHECK: %[[O:.*]] = tile.binary sub %{{.*}}, %[[S]]
// CHECK: tile.load %arg0[%[[R]], %[[O]]] {tgpu.aligned = 16 : i64}
// CHECK: tile.load %arg2[%[[R]], %[[O]]] :
// CHECK: %[[I:.*]] = tile.iota 1
// CHECK: %[[FAR:.*]] = tile.splat %[[S]]
// CHECK: %[[C:.*]] = tile.binary sub %[[I]], %[[FAR]]
// CHECK: tile.cast %[[C]]
// CHECK: tile.store %{{.*}}, %arg1[%[[R]], %[[O]]] {tgpu.aligned = 16 : i64}
func.func @rows(%X: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 4089>},
                %Y: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 4089>},
                %Z: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 2, 1>, tile.dim_max = array<i64: 0, 4089>}) attributes {tile.kernel} {
  %r = tile.grid %X [1] : !tile.tensor<2, bf16> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  %w = tile.load %Z[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  %i = tile.iota 1 : tensor<1x4096xindex>
  %c = tile.cast %i : tensor<1x4096xindex> -> tensor<1x4096xbf16>
  %s = tile.binary add %x, %c : tensor<1x4096xbf16>
  %t = tile.binary add %s, %w : tensor<1x4096xbf16>
  tile.store %t, %Y[%r, %z] : tensor<1x4096xbf16>, !tile.tensor<2, bf16>
  return
}

// Halves of a vector are aligned where the strides agree modulo four.
// CHECK-LABEL: func.func @halves
// CHECK: tile.load %arg0[{{.*}}] {tgpu.aligned = 16 : i64}
// CHECK: tile.store %{{.*}}, %arg1[{{.*}}] {tgpu.aligned = 8 : i64}
func.func @halves(%X: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 100>},
                  %Y: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 5, 1>, tile.dim_max = array<i64: 0, 100>}) attributes {tile.kernel} {
  %r = tile.grid %X [1] : !tile.tensor<2, bf16> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x128xbf16>
  tile.store %x, %Y[%r, %z] : tensor<1x128xbf16>, !tile.tensor<2, bf16>
  return
}

// No room for a vector more; several rows; aligned rows; a position that is asked for: nothing moves.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: tgpu.misalign
func.func @stay(%X: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 4096>},
                %Y: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 4089>},
                %Z: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 0, 1>, tile.dim_max = array<i64: 0, 4089>},
                %P: !tile.tensor<2, i32>) attributes {tile.kernel} {
  %r = tile.grid %X [1] : !tile.tensor<2, bf16> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  tile.store %x, %X[%r, %z] : tensor<1x4096xbf16>, !tile.tensor<2, bf16>
  %y = tile.load %Y[%r, %z] : !tile.tensor<2, bf16> -> tensor<2x4096xbf16>
  tile.store %y, %Y[%r, %z] : tensor<2x4096xbf16>, !tile.tensor<2, bf16>
  %w = tile.load %Z[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  tile.store %w, %Z[%r, %z] : tensor<1x4096xbf16>, !tile.tensor<2, bf16>
  %v = tile.load %Y[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
  %p = tile.reduce argmax %v, 1 : tensor<1x4096xbf16> -> tensor<1x1xindex>
  %q = tile.cast %p : tensor<1x1xindex> -> tensor<1x1xi32>
  tile.store %q, %P[%r, %z] : tensor<1x1xi32>, !tile.tensor<2, i32>
  return
}

// Rows of the trips of a loop start at different places: the tile that is carried must not move.
// CHECK-LABEL: func.func @carried
// CHECK-NOT: tgpu.misalign
func.func @carried(%X: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, tile.dim_max = array<i64: 0, 4089>}) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %n = tile.dim %X, 0 : !tile.tensor<2, bf16>
  %init = tile.constant dense<0.0> : tensor<1x4096xbf16>
  %sum = scf.for %i = %z to %n step %one iter_args(%acc = %init) -> tensor<1x4096xbf16> {
    %j = tile.binary add %i, %one : index
    %x = tile.load %X[%j, %z] : !tile.tensor<2, bf16> -> tensor<1x4096xbf16>
    %next = tile.binary add %acc, %x : tensor<1x4096xbf16>
    scf.yield %next : tensor<1x4096xbf16>
  }
  tile.store %sum, %X[%z, %z] : tensor<1x4096xbf16>, !tile.tensor<2, bf16>
  return
}
