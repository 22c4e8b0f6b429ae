// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --pass-pipeline="builtin.module(func.func(sectile-pad-tiles,cse))" --split-input-file | FileCheck %s
// RUN: sectile-opt %s --pass-pipeline="builtin.module(func.func(sectile-pad-tiles,sectile-select-mma{pipelined=false},sectile-assign-layouts))" --split-input-file | FileCheck %s --check-prefix=LAYOUT

// Accesses keep to the true length, the sum meets the zeros of the load, the maximum an identity. 100 elements of a
// row on 100 lanes.
// CHECK-LABEL: func.func @row({{.*}}tgpu.padded = [array<i64: 100, 128>]
// CHECK-DAG: %[[L:.*]] = tile.constant 100 : index
// CHECK: %[[X:.*]] = tgpu.global_load {{.*}} axes [1] lo[%{{.*}}] hi[%[[L]]]{{.*}}tgpu.lengths = array<i64: 7, 100>{{.*}} -> tensor<7x128xf32>
// CHECK: tile.reduce {{ *}}sum %[[X]], 1 : tensor<7x128xf32>
// CHECK: %[[MAXED:.*]] = tgpu.fill_outside %[[X]] axes [1] lo[%{{.*}}] hi[%[[L]]] fill 0xFF800000 : f32
// CHECK: tile.reduce {{ *}}max %[[MAXED]], 1
// CHECK: %[[H:.*]] = tile.binary {{ *}}min %{{.*}}, %[[L]] : index
// CHECK: tgpu.global_store {{.*}} axes [1] lo[%{{.*}}] hi[%[[H]]]
// LAYOUT: #[[ROWS:.*]] = #tgpu.layout<"core=[1,128] reps=[7,1] reg=[] lane=[(0,1),(0,2),(0,4),(0,8),(0,16)] warp=[(0,32),(0,64)]">
// LAYOUT-LABEL: func.func @row
// LAYOUT: tgpu.global_load {{.*}} -> tensor<7x128xf32, #[[ROWS]]>
func.func @row(%X: !tile.tensor<2, f32>, %n: index) {
  %c0 = tile.constant 0 : index
  %x = tgpu.global_load %X[%c0, %c0] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<7x100xf32>
  %s = tile.reduce sum %x, 1 : tensor<7x100xf32> -> tensor<7x1xf32>
  %m = tile.reduce max %x, 1 : tensor<7x100xf32> -> tensor<7x1xf32>
  %sb = tile.broadcast %s : tensor<7x1xf32> -> tensor<7x100xf32>
  %mb = tile.broadcast %m : tensor<7x1xf32> -> tensor<7x100xf32>
  %y = tile.binary mul %sb, %mb : tensor<7x100xf32>
  tgpu.global_store %y, %X[%c0, %c0] axes [1] lo[%c0] hi[%n] : tensor<7x100xf32>, !tile.tensor<2, f32>
  return
}

// -----

// What was filled behind the tensor's end is filled behind the old length, too: no second fill.
// CHECK-LABEL: func.func @filled
// CHECK: %[[H:.*]] = tile.binary {{ *}}min %arg1, %{{.*}} : index
// CHECK: %[[F:.*]] = tgpu.fill_outside %{{.*}} axes [1] lo[%{{.*}}] hi[%{{.*}}] fill 0xFF800000
// CHECK-NEXT: tile.reduce {{ *}}max %[[F]], 1
func.func @filled(%X: !tile.tensor<2, f32>, %n: index) {
  %c0 = tile.constant 0 : index
  %x = tgpu.global_load %X[%c0, %c0] axes [1] lo[%c0] hi[%n] pad 0.0 : f32 {tgpu.aligned = 16 : i64} : !tile.tensor<2, f32> -> tensor<7x100xf32>
  %f = tgpu.fill_outside %x axes [1] lo[%c0] hi[%n] fill 0xFF800000 : f32 : tensor<7x100xf32>
  %m = tile.reduce max %f, 1 : tensor<7x100xf32> -> tensor<7x1xf32>
  tgpu.global_store %m, %X[%c0, %c0] axes [] lo[] hi[] : tensor<7x1xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Lengths with small odd factors stay.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: tgpu.padded
// CHECK: -> tensor<24x176xf32>
func.func @kept(%X: !tile.tensor<2, f32>) {
  %c0 = tile.constant 0 : index
  %x = tgpu.global_load %X[%c0, %c0] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<24x176xf32>
  tgpu.global_store %x, %X[%c0, %c0] axes [] lo[] hi[] : tensor<24x176xf32>, !tile.tensor<2, f32>
  return
}

// -----

// A reshape that joins axes: their lanes are numbered by the lengths, which stay.
// CHECK-LABEL: func.func @joined
// CHECK-NOT: tgpu.padded
// CHECK: tile.reshape {{.*}} : tensor<17x2xf32> -> tensor<34xf32>
func.func @joined(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<1, f32>) {
  %c0 = tile.constant 0 : index
  %x = tgpu.global_load %X[%c0, %c0] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<2, f32> -> tensor<17x2xf32>
  %y = tile.reshape %x : tensor<17x2xf32> -> tensor<34xf32>
  tgpu.global_store %y, %Y[%c0] axes [] lo[] hi[] : tensor<34xf32>, !tile.tensor<1, f32>
  return
}

// -----

// M, N and K of a product grow to whole atoms; K sees zeros on both sides: the load of A has them, B needs them.
// CHECK-LABEL: func.func @product
// CHECK: tgpu.padded = [array<i64: 34, [[K:[0-9]+]]>, array<i64: 51, [[M:[0-9]+]]>, array<i64: 68, [[N:[0-9]+]]>]
// CHECK: %[[A:.*]] = tgpu.global_load {{.*}} -> tensor<[[M]]x[[K]]xbf16>
// CHECK: %[[B:.*]] = tgpu.fill_outside %{{.*}} axes [0] {{.*}} fill 0.0
// CHECK: tile.mma {{ *}}exact %[[A]], %[[B]], %{{.*}} : tensor<[[M]]x[[K]]xbf16>, tensor<[[K]]x[[N]]xbf16>, tensor<[[M]]x[[N]]xf32>
// LAYOUT-LABEL: func.func @product
// LAYOUT: tile.mma {{.*}}tgpu.atom
func.func @product(%A: !tile.tensor<2, bf16>, %C: !tile.tensor<2, f32>) {
  %c0 = tile.constant 0 : index
  %one = tile.constant dense<1.0> : tensor<34x68xbf16>
  %zero = tile.constant dense<0.0> : tensor<51x68xf32>
  %a = tgpu.global_load %A[%c0, %c0] axes [] lo[] hi[] pad 0.0 : bf16 : !tile.tensor<2, bf16> -> tensor<51x34xbf16>
  %r = tile.mma exact %a, %one, %zero : tensor<51x34xbf16>, tensor<34x68xbf16>, tensor<51x68xf32>
  tgpu.global_store %r, %C[%c0, %c0] axes [] lo[] hi[] : tensor<51x68xf32>, !tile.tensor<2, f32>
  return
}
