// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-resolve-tails --cse | FileCheck %s

// Bounds only where the offset may leave the tensor: the grid keeps it at 0 or more; dims are multiples of 8.
// CHECK-LABEL: func.func @bounds
// CHECK: %[[G:.*]]:2 = tile.grid
// CHECK: %[[DIM:.*]] = tile.dim %arg0, 1
// CHECK: %[[HI:.*]] = tile.binary sub %[[DIM]], %[[G]]#1
// CHECK: tgpu.global_load %arg0[%[[G]]#0, %[[G]]#1] axes [1] lo[%{{.*}}] hi[%[[HI]]] pad 0.000000e+00
// CHECK: tgpu.global_store %{{.*}}, %arg0[%[[G]]#0, %[[G]]#1] axes [1] lo[%{{.*}}] hi[%[[HI]]]
func.func @bounds(%X: !tile.tensor<2, f32> {tile.dim_div = array<i64: 8, 8>}) attributes {tile.kernel} {
  %m, %n = tile.grid %X [8, 16] : !tile.tensor<2, f32> -> index, index
  %x = tile.load %X[%m, %n] : !tile.tensor<2, f32> -> tensor<8x16xf32>
  tile.store %x, %X[%m, %n] : tensor<8x16xf32>, !tile.tensor<2, f32>
  return
}

// An offset of unknown sign gets a lower bound.
// CHECK-LABEL: func.func @below
// CHECK: %[[NEG:.*]] = tile.binary sub %{{.*}}, %arg1
// CHECK: %[[LO:.*]] = tile.binary max %{{.*}}, %[[NEG]]
// CHECK: tgpu.global_load %arg0[%arg1] axes [0] lo[%[[LO]]] hi
func.func @below(%X: !tile.tensor<1, f32>, %i: index) attributes {tile.kernel} {
  %x = tile.load %X[%i] : !tile.tensor<1, f32> -> tensor<8xf32>
  tile.store %x, %X[%i] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// CHECK-LABEL: func.func @difference
// CHECK: %[[D:.*]] = tile.binary sub %{{.*}}, %{{.*}} : index
// CHECK: %[[NEG:.*]] = tile.binary sub %{{.*}}, %[[D]]
// CHECK: %[[LO:.*]] = tile.binary max %{{.*}}, %[[NEG]]
// CHECK: tgpu.global_store %{{.*}}, %arg0[%[[D]]] axes [0] lo[%[[LO]]]
func.func @difference(%X: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %X [8] : !tile.tensor<1, f32> -> index
  %c3 = tile.constant 3 : index
  %j = tile.binary sub %i, %c3 : index
  %x = tile.constant dense<1.0> : tensor<8xf32>
  tile.store %x, %X[%j] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}

// A reduction sees its identity; a sum of a load alone is padded by the load; fill is a pad, too.
// CHECK-LABEL: func.func @reductions
// CHECK: %[[X:.*]] = tgpu.global_load %arg0
// CHECK: %[[C:.*]] = tile.compare lt
// CHECK: %[[INF:.*]] = tile.constant dense<0xFF800000> : tensor<64xf32>
// CHECK: %[[S:.*]] = tile.select %[[C]], %[[X]], %[[INF]]
// CHECK: tile.reduce max %[[S]], 0
// CHECK: %[[Y:.*]] = tgpu.global_load %arg1
// CHECK-NEXT: tile.reduce sum %[[Y]], 0
// CHECK: tgpu.global_load %arg1{{.*}} pad 7.000000e+00
// CHECK-NOT: tile.fill
func.func @reductions(%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>, %O: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %c7 = tile.constant 7.0 : f32
  %x = tile.load %X[%z] : !tile.tensor<1, f32> -> tensor<64xf32>
  %m = tile.reduce max %x, 0 : tensor<64xf32> -> tensor<1xf32>
  %y = tile.load %Y[%z] : !tile.tensor<1, f32> -> tensor<64xf32>
  %s = tile.reduce sum %y, 0 : tensor<64xf32> -> tensor<1xf32>
  %f = tile.load %Y[%z] : !tile.tensor<1, f32> -> tensor<64xf32>
  %g = tile.fill %f, %c7 : tensor<64xf32>, f32
  %h = tile.reduce min %g, 0 : tensor<64xf32> -> tensor<1xf32>
  %a = tile.binary add %m, %s : tensor<1xf32>
  %b = tile.binary add %a, %h : tensor<1xf32>
  tile.store %b, %O[%z] : tensor<1xf32>, !tile.tensor<1, f32>
  return
}

// K of both operands ends at the smaller end; the loads take that over, no select is needed. The accumulator's extents
// are carried.
// CHECK-LABEL: func.func @product
// CHECK: scf.for %[[IV:.*]] = {{.*}} iter_args({{.*}}) -> (tensor<16x8xf32>, index, index)
// CHECK: %[[KA:.*]] = tile.binary sub %{{.*}}, %[[IV]]
// CHECK: %[[KB:.*]] = tile.binary sub %{{.*}}, %[[IV]]
// CHECK: %[[K:.*]] = tile.binary min %[[KA]], %[[KB]]
// CHECK: tgpu.global_load %arg0{{.*}} axes [0, 1] lo[{{.*}}] hi[{{.*}}, %[[K]]]
// CHECK: tgpu.global_load %arg1{{.*}} axes [0, 1] lo[{{.*}}] hi[%[[K]], {{.*}}]
// CHECK-NOT: tile.select
// CHECK: tile.mma
func.func @product(%A: !tile.tensor<2, f16>, %B: !tile.tensor<2, f16>, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [16, 8] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 16 : index
  %K = tile.dim %A, 1 : !tile.tensor<2, f16>
  %init = tile.constant dense<0.0> : tensor<16x8xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<16x8xf32> {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, f16> -> tensor<16x16xf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, f16> -> tensor<16x8xf16>
    %next = tile.mma exact %a, %b, %acc : tensor<16x16xf16>, tensor<16x8xf16>, tensor<16x8xf32>
    scf.yield %next : tensor<16x8xf32>
  }
  tile.store %r, %C[%m, %n] : tensor<16x8xf32>, !tile.tensor<2, f32>
  return
}

// A mask goes to the store, through a branch as well.
// CHECK-LABEL: func.func @masks
// CHECK: %[[M:.*]] = tile.compare lt
// CHECK: %[[R:.*]]:2 = scf.if %arg1 -> (tensor<8xi32>, tensor<8xi1>)
// CHECK: scf.yield %{{.*}}, %[[M]]
// CHECK: scf.yield %{{.*}}, %{{.*}} : tensor<8xi32>, tensor<8xi1>
// CHECK: tgpu.global_store %[[R]]#0, {{.*}} mask %[[R]]#1
func.func @masks(%X: !tile.tensor<1, i32>, %c: i1) attributes {tile.kernel} {
  %i = tile.grid %X [1] : !tile.tensor<1, i32> -> index
  %one = tile.constant dense<1> : tensor<8xi32>
  %two = tile.constant dense<2> : tensor<8xi32>
  %m = tile.compare lt %one, %two : tensor<8xi32> -> tensor<8xi1>
  %k = tile.keep %m, %one : tensor<8xi1>, tensor<8xi32>
  %r = scf.if %c -> tensor<8xi32> {
    scf.yield %k : tensor<8xi32>
  } else {
    scf.yield %two : tensor<8xi32>
  }
  tile.store %r, %X[%i] : tensor<8xi32>, !tile.tensor<1, i32>
  return
}
