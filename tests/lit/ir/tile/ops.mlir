// SPDX-License-Identifier: Apache-2.0
// Every tile op is printed as it is read, also from the generic form.
// RUN: sectile-opt %s | sectile-opt | FileCheck %s
// RUN: sectile-opt %s --mlir-print-op-generic | sectile-opt | FileCheck %s

// CHECK-LABEL: func.func @matmul
// CHECK-SAME: %[[A:.*]]: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.readonly}
func.func @matmul(%A: !tile.tensor<2, bf16> {tile.align = 16 : i64, tile.readonly}, %B: !tile.tensor<2, bf16>,
                  %C: !tile.tensor<2, bf16>) attributes {tile.kernel} {
  // CHECK: %[[MN:.*]]:2 = tile.grid %{{.*}} [128, 256] : !tile.tensor<2, bf16> -> index, index
  %m, %n = tile.grid %C [128, 256] : !tile.tensor<2, bf16> -> index, index
  // CHECK: %[[ZERO:.*]] = tile.constant 0 : index
  %zero = tile.constant 0 : index
  %step = tile.constant 64 : index
  // CHECK: tile.dim %[[A]], 1 : !tile.tensor<2, bf16>
  %K = tile.dim %A, 1 : !tile.tensor<2, bf16>
  // CHECK: tile.constant dense<0.000000e+00> : tensor<128x256xf32>
  %init = tile.constant dense<0.0> : tensor<128x256xf32>
  // CHECK: scf.for %[[K:.*]] = %[[ZERO]] to
  %acc = scf.for %k = %zero to %K step %step iter_args(%c = %init) -> tensor<128x256xf32> {
    // CHECK: tile.load %[[A]][%[[MN]]#0, %[[K]]] : !tile.tensor<2, bf16> -> tensor<128x64xbf16>
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<128x64xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<64x256xbf16>
    // CHECK: tile.mma exact %{{.*}}, %{{.*}}, %{{.*}} : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<128x256xf32>
    %d = tile.mma exact %a, %b, %c : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<128x256xf32>
    scf.yield %d : tensor<128x256xf32>
  }
  // CHECK: tile.cast %{{.*}} : tensor<128x256xf32> -> tensor<128x256xbf16>
  %out = tile.cast %acc : tensor<128x256xf32> -> tensor<128x256xbf16>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%[[MN]]#0, %[[MN]]#1] : tensor<128x256xbf16>, !tile.tensor<2, bf16>
  tile.store %out, %C[%m, %n] : tensor<128x256xbf16>, !tile.tensor<2, bf16>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%X: !tile.tensor<1, f32>, %i: tensor<64xindex>, %m: tensor<64xi1>, %lo: index, %hi: index,
                  %f: f32) -> tensor<64xf32> {
  // CHECK: %[[S:.*]] = tile.slice %{{.*}}, 0[%{{.*}} to %{{.*}}] : !tile.tensor<1, f32>
  %s = tile.slice %X, 0 [%lo to %hi] : !tile.tensor<1, f32>
  // CHECK: tile.gather %[[S]][%{{.*}}] : !tile.tensor<1, f32>, (tensor<64xindex>) -> tensor<64xf32>
  %v = tile.gather %s[%i] : !tile.tensor<1, f32>, (tensor<64xindex>) -> tensor<64xf32>
  // CHECK: tile.gather %[[S]][%{{.*}}] : !tile.tensor<1, f32>, (index) -> f32
  %w = tile.gather %s[%lo] : !tile.tensor<1, f32>, (index) -> f32
  // CHECK: tile.keep %{{.*}}, %{{.*}} : tensor<64xi1>, tensor<64xf32>
  %k = tile.keep %m, %v : tensor<64xi1>, tensor<64xf32>
  // CHECK: tile.fill %{{.*}}, %{{.*}} : tensor<64xf32>, f32
  %y = tile.fill %k, %w : tensor<64xf32>, f32
  return %y : tensor<64xf32>
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<64xf32>, %y: tensor<64xf32>, %u: ui8, %n: index) -> tensor<64xf32> {
  // CHECK: tile.unary exp %{{.*}} : tensor<64xf32> -> tensor<64xf32>
  %e = tile.unary exp %x : tensor<64xf32> -> tensor<64xf32>
  // CHECK: tile.unary isnan %{{.*}} : tensor<64xf32> -> tensor<64xi1>
  %nan = tile.unary isnan %x : tensor<64xf32> -> tensor<64xi1>
  // CHECK: tile.unary bits %{{.*}} : tensor<64xf32> -> tensor<64xui32>
  %word = tile.unary bits %x : tensor<64xf32> -> tensor<64xui32>
  // CHECK: tile.cast %{{.*}} : tensor<64xf32> -> tensor<64xf4E2M1FN>
  %small = tile.cast %x : tensor<64xf32> -> tensor<64xf4E2M1FN>
  // CHECK: tile.binary maxnum %{{.*}}, %{{.*}} : tensor<64xf32>
  %s = tile.binary maxnum %e, %y : tensor<64xf32>
  // CHECK: tile.binary shl %{{.*}}, %{{.*}} : ui8
  %t = tile.binary shl %u, %u : ui8
  // CHECK: tile.compare lt %{{.*}}, %{{.*}} : tensor<64xf32> -> tensor<64xi1>
  %m = tile.compare lt %x, %y : tensor<64xf32> -> tensor<64xi1>
  // CHECK: tile.compare ge %{{.*}}, %{{.*}} : index -> i1
  %g = tile.compare ge %n, %n : index -> i1
  // CHECK: tile.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<64xi1>, tensor<64xf32>
  %a = tile.select %m, %s, %y : tensor<64xi1>, tensor<64xf32>
  // CHECK: tile.select %{{.*}}, %{{.*}}, %{{.*}} : i1, tensor<64xf32>
  %b = tile.select %g, %a, %y : i1, tensor<64xf32>
  // CHECK: tile.fma %{{.*}}, %{{.*}}, %{{.*}} : tensor<64xf32>
  %f = tile.fma %a, %x, %b : tensor<64xf32>
  return %f : tensor<64xf32>
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: f32) -> (tensor<128x64xf32>, tensor<64x128xindex>) {
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<64xf32>
  %t = tile.splat %x : f32 -> tensor<64xf32>
  // CHECK: tile.reshape %{{.*}} : tensor<64xf32> -> tensor<64x1xf32>
  %r = tile.reshape %t : tensor<64xf32> -> tensor<64x1xf32>
  // CHECK: tile.broadcast %{{.*}} : tensor<64x1xf32> -> tensor<64x128xf32>
  %b = tile.broadcast %r : tensor<64x1xf32> -> tensor<64x128xf32>
  // CHECK: tile.permute %{{.*}} [1, 0] : tensor<64x128xf32> -> tensor<128x64xf32>
  %p = tile.permute %b [1, 0] : tensor<64x128xf32> -> tensor<128x64xf32>
  // CHECK: tile.iota 1 : tensor<64x128xindex>
  %i = tile.iota 1 : tensor<64x128xindex>
  return %p, %i : tensor<128x64xf32>, tensor<64x128xindex>
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<64x128xf32>, %m: tensor<64xi1>) -> (tensor<64x1xf32>, tensor<1x128xindex>, tensor<1xi1>) {
  // CHECK: tile.reduce sum %{{.*}}, 1 : tensor<64x128xf32> -> tensor<64x1xf32>
  %s = tile.reduce sum %x, 1 : tensor<64x128xf32> -> tensor<64x1xf32>
  // CHECK: tile.reduce argmax %{{.*}}, 0 : tensor<64x128xf32> -> tensor<1x128xindex>
  %a = tile.reduce argmax %x, 0 : tensor<64x128xf32> -> tensor<1x128xindex>
  // CHECK: tile.reduce any %{{.*}}, 0 : tensor<64xi1> -> tensor<1xi1>
  %n = tile.reduce any %m, 0 : tensor<64xi1> -> tensor<1xi1>
  return %s, %a, %n : tensor<64x1xf32>, tensor<1x128xindex>, tensor<1xi1>
}

// CHECK-LABEL: func.func @element_types
// CHECK-SAME: !tile.tensor<1, f8E4M3FN>
// CHECK-SAME: !tile.tensor<5, f8E5M2>
// CHECK-SAME: !tile.tensor<1, ui64>
// CHECK-SAME: !tile.tensor<1, i1>
func.func @element_types(%a: !tile.tensor<1, f8E4M3FN>, %b: !tile.tensor<5, f8E5M2>, %c: !tile.tensor<1, ui64>,
                         %d: !tile.tensor<1, i1>) {
  // CHECK: tile.constant 255 : ui8
  %u = tile.constant 255 : ui8
  // CHECK: tile.constant true
  %t = tile.constant true
  // CHECK: tile.constant 4.480000e+02 : f8E4M3FN
  %f = tile.constant 448.0 : f8E4M3FN
  return
}
