// SPDX-License-Identifier: Apache-2.0
// A loop that only accumulates goes through this part's share of its trips; what follows runs in the last part.
// RUN: sectile-opt %s --sectile-resolve-tails --loop-invariant-code-motion --sectile-simplify --sectile-split-reduction | FileCheck %s
// RUN: sectile-opt %s --sectile-resolve-tails --loop-invariant-code-motion --sectile-simplify --sectile-split-reduction=parts=1 | FileCheck %s --check-prefix=WHOLE

// The rows are added up before the parts meet: 64 sums per part, not 16 x 64.
// CHECK-LABEL: func.func @column_sums
// CHECK: %[[ROWS:.*]] = tile.dim %{{.*}}, 0
// CHECK: %[[PART:.*]], %[[FIRST:.*]], %[[TRIPS:.*]] = tgpu.split_range %{{.*}} to %[[ROWS]] by %{{.*}} min_trips 4 parts 0
// CHECK: %[[ALL:.*]] = tile.compare lt %[[TRIPS]]
// CHECK: %[[END:.*]] = tile.select %[[ALL]], %[[ROWS]], %{{.*}} : i1, index
// CHECK: %[[R:.*]] = scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK: %[[S:.*]] = tile.reduce sum %[[R]], 0
// CHECK: %[[LAST:.*]], %[[TOTAL:.*]] = tgpu.combine_parts [#tile<binary_fn add>] %[[S]] : tensor<1x64xf32> -> tensor<1x64xf32>
// CHECK: scf.if %[[LAST]] {
// CHECK: tile.reshape %[[TOTAL]]
// CHECK: tgpu.global_store
// CHECK-NOT: tgpu.global_store
// WHOLE-LABEL: func.func @column_sums
// WHOLE-NOT: tgpu.split_range
func.func @column_sums(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %c = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %z = tile.constant 0 : index
  %s = tile.constant 16 : index
  %zero = tile.constant 0.0 : f32
  %rows = tile.dim %X, 0 : !tile.tensor<2, f32>
  %init = tile.constant dense<0.0> : tensor<16x64xf32>
  %r = scf.for %i = %z to %rows step %s iter_args(%acc = %init) -> tensor<16x64xf32> {
    %l = tile.load %X[%i, %c] : !tile.tensor<2, f32> -> tensor<16x64xf32>
    %x = tile.fill %l, %zero : tensor<16x64xf32>, f32
    %next = tile.binary add %acc, %x : tensor<16x64xf32>
    scf.yield %next : tensor<16x64xf32>
  }
  %sum = tile.reduce sum %r, 0 : tensor<16x64xf32> -> tensor<1x64xf32>
  %row = tile.reshape %sum : tensor<1x64xf32> -> tensor<64xf32>
  tile.store %row, %Y[%c] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// The second part and those after it start with what changes nothing.
// CHECK-LABEL: func.func @initial
// CHECK: %[[PART:.*]], %{{.*}}, %{{.*}} = tgpu.split_range
// CHECK: %[[IS_FIRST:.*]] = tile.compare eq %[[PART]]
// CHECK: tile.select %[[IS_FIRST]], %{{.*}}, %{{.*}} : i1, tensor<64xf32>
// CHECK: tgpu.combine_parts [#tile<binary_fn max>]
func.func @initial(%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %n = tile.dim %X, 0 : !tile.tensor<1, f32>
  %one = tile.constant 1.0 : f32
  %init = tile.constant dense<1.0> : tensor<64xf32>
  %r = scf.for %i = %z to %n step %s iter_args(%acc = %init) -> tensor<64xf32> {
    %l = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
    %x = tile.fill %l, %one : tensor<64xf32>, f32
    %next = tile.binary max %acc, %x : tensor<64xf32>
    scf.yield %next : tensor<64xf32>
  }
  tile.store %r, %Y[%z] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// A running maximum that rescales a sum is no accumulation.
// CHECK-LABEL: func.func @rescaled
// CHECK-NOT: tgpu.split_range
func.func @rescaled(%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %n = tile.dim %X, 0 : !tile.tensor<1, f32>
  %zero = tile.constant 0.0 : f32
  %init = tile.constant dense<0.0> : tensor<64xf32>
  %m, %r = scf.for %i = %z to %n step %s iter_args(%max = %init, %acc = %init) -> (tensor<64xf32>, tensor<64xf32>) {
    %l = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
    %x = tile.fill %l, %zero : tensor<64xf32>, f32
    %top = tile.binary max %max, %x : tensor<64xf32>
    %scaled = tile.binary mul %acc, %top : tensor<64xf32>
    %next = tile.binary add %scaled, %x : tensor<64xf32>
    scf.yield %top, %next : tensor<64xf32>, tensor<64xf32>
  }
  tile.store %r, %Y[%z] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
