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
// CHECK: %[[S:.*]] = tgpu.fill_outside %[[X]] axes [0] lo[%{{.*}}] hi[%{{.*}}] fill 0xFF800000 : f32 : tensor<64xf32>
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

// A mask that depends on k alone: zeros on both sides are the whole meaning.
// CHECK-LABEL: func.func @masked_k
// CHECK: %[[LINE:.*]] = tile.compare lt %{{.*}} : tensor<1x8xindex> -> tensor<1x8xi1>
// CHECK: %[[MASK:.*]] = tile.broadcast %[[LINE]] : tensor<1x8xi1> -> tensor<16x8xi1>
// CHECK-NOT: scf.if
// CHECK: %[[A:.*]] = tile.select %[[MASK]], %arg0
// CHECK: %[[TURNED:.*]] = tile.reshape %[[LINE]] : tensor<1x8xi1> -> tensor<8x1xi1>
// CHECK: %[[OTHER:.*]] = tile.broadcast %[[TURNED]] : tensor<8x1xi1> -> tensor<8x4xi1>
// CHECK: %[[B:.*]] = tile.select %[[OTHER]], %arg1
// CHECK: tile.mma exact %[[A]], %[[B]], %arg2
// CHECK-NOT: scf.if
func.func @masked_k(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %c: tensor<16x4xf32>, %n: index) -> tensor<16x4xf32> {
  %i = tile.iota 1 : tensor<1x8xindex>
  %s = tile.splat %n : index -> tensor<1x8xindex>
  %line = tile.compare lt %i, %s : tensor<1x8xindex> -> tensor<1x8xi1>
  %m = tile.broadcast %line : tensor<1x8xi1> -> tensor<16x8xi1>
  %k = tile.keep %m, %a : tensor<16x8xi1>, tensor<16x8xf16>
  %r = tile.mma exact %k, %b, %c : tensor<16x8xf16>, tensor<8x4xf16>, tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}

// A mask per row and k: zeros will do while the other operand is finite.
// CHECK-LABEL: func.func @masked_each
// CHECK: %[[A:.*]] = tile.select %arg3, %arg0
// CHECK: %[[SIZE:.*]] = tile.unary abs %arg1
// CHECK: %[[FINITE:.*]] = tile.compare lt %[[SIZE]]
// CHECK: %[[COLUMNS:.*]] = tile.reduce all %[[FINITE]], 0
// CHECK: %[[ALL:.*]] = tile.reduce all %[[COLUMNS]], 1
// CHECK: %[[COND:.*]] = tile.reshape %[[ALL]] : tensor<1x1xi1> -> i1
// CHECK: scf.if %[[COND]]
// CHECK: tile.mma exact %[[A]], %arg1, %arg2
// CHECK: } else {
// CHECK: scf.for %{{.*}} iter_args(%[[ACC:.*]] = %arg2)
// CHECK: %[[NEXT:.*]] = tile.mma exact
// CHECK: tile.reduce any
// CHECK: %[[KEPT:.*]] = tile.broadcast
// CHECK: tile.select %[[KEPT]], %[[NEXT]], %[[ACC]]
func.func @masked_each(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %c: tensor<16x4xf32>, %m: tensor<16x8xi1>) -> tensor<16x4xf32> {
  %k = tile.keep %m, %a : tensor<16x8xi1>, tensor<16x8xf16>
  %r = tile.mma exact %k, %b, %c : tensor<16x8xf16>, tensor<8x4xf16>, tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}

// e4m3 has NaN alone.
// CHECK-LABEL: func.func @masked_e4m3
// CHECK: tile.compare eq %arg0, %arg0
// CHECK: scf.if
func.func @masked_e4m3(%a: tensor<16x8xf8E4M3FN>, %b: tensor<8x4xf8E4M3FN>, %c: tensor<16x4xf32>, %m: tensor<8x4xi1>) -> tensor<16x4xf32> {
  %k = tile.keep %m, %b : tensor<8x4xi1>, tensor<8x4xf8E4M3FN>
  %r = tile.mma exact %a, %k, %c : tensor<16x8xf8E4M3FN>, tensor<8x4xf8E4M3FN>, tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}

// Integers need no look at the other operand, filled lanes none either.
// CHECK-LABEL: func.func @masked_cheap
// CHECK-NOT: scf.if
// CHECK-COUNT-2: tile.mma
// CHECK-NOT: scf.if
// CHECK: return
func.func @masked_cheap(%a: tensor<16x8xi8>, %b: tensor<8x4xi8>, %c: tensor<16x4xi32>, %m: tensor<16x8xi1>, %x: tensor<16x8xf16>,
    %y: tensor<8x4xf16>, %z: tensor<16x4xf32>) -> (tensor<16x4xi32>, tensor<16x4xf32>) {
  %k = tile.keep %m, %a : tensor<16x8xi1>, tensor<16x8xi8>
  %r = tile.mma exact %k, %b, %c : tensor<16x8xi8>, tensor<8x4xi8>, tensor<16x4xi32>
  %zero = tile.constant 0.0 : f16
  %xk = tile.keep %m, %x : tensor<16x8xi1>, tensor<16x8xf16>
  %xf = tile.fill %xk, %zero : tensor<16x8xf16>, f16
  %s = tile.mma exact %xf, %y, %z : tensor<16x8xf16>, tensor<8x4xf16>, tensor<16x4xf32>
  return %r, %s : tensor<16x4xi32>, tensor<16x4xf32>
}

// Zeros for a product stand in front of the cast of its operand, not in halves of registers.
// CHECK-LABEL: func.func @zeros_before_cast
// CHECK: %[[E:.*]] = tile.unary exp
// CHECK: %[[F:.*]] = tgpu.fill_outside %[[E]] axes [1] {{.*}} fill 0.000000e+00 {{.*}}f32
// CHECK: %[[C:.*]] = tile.cast %[[F]] : tensor<16x16xf32> -> tensor<16x16xbf16>
// CHECK: tile.mma exact %[[C]]
func.func @zeros_before_cast(%A: !tile.tensor<2, f32>, %B: !tile.tensor<2, bf16>, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [16, 16] : !tile.tensor<2, f32> -> index, index
  %zero = tile.constant 0 : index
  %a = tile.load %A[%m, %zero] : !tile.tensor<2, f32> -> tensor<16x16xf32>
  %e = tile.unary exp %a : tensor<16x16xf32> -> tensor<16x16xf32>
  %c = tile.cast %e : tensor<16x16xf32> -> tensor<16x16xbf16>
  %b = tile.load %B[%zero, %n] : !tile.tensor<2, bf16> -> tensor<16x16xbf16>
  %acc = tile.constant dense<0.0> : tensor<16x16xf32>
  %r = tile.mma exact %c, %b, %acc : tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xf32>
  tile.store %r, %C[%m, %n] : tensor<16x16xf32>, !tile.tensor<2, f32>
  return
}
