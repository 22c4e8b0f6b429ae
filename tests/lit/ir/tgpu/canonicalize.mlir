// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --canonicalize | FileCheck %s

// CHECK-DAG: #[[A:[a-z0-9]+]] = #tgpu.layout<"core=[64] reps=[1] reg=[(1)]
#a = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
// CHECK-DAG: #[[B:[a-z0-9]+]] = #tgpu.layout<"core=[64] reps=[1] reg=[(32)]
#b = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
// CHECK-DAG: #[[C:[a-z0-9]+]] = #tgpu.layout<"core=[64] reps=[1] reg=[(16)]
#c = #tgpu.layout<"core=[64] reps=[1] reg=[(16)] lane=[(1),(2),(4),(8),(32)] warp=[]">

// CHECK-LABEL: func.func @convert_to_same
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @convert_to_same(%x: tensor<64xf32, #a>) -> tensor<64xf32, #a> {
  %y = tgpu.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #a>
  return %y : tensor<64xf32, #a>
}

// CHECK-LABEL: func.func @convert_there_and_back
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @convert_there_and_back(%x: tensor<64xf32, #a>) -> tensor<64xf32, #a> {
  %y = tgpu.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
  %z = tgpu.convert_layout %y : tensor<64xf32, #b> -> tensor<64xf32, #a>
  return %z : tensor<64xf32, #a>
}

// CHECK-LABEL: func.func @convert_twice
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: %[[Y:.*]] = tgpu.convert_layout %[[X]] : tensor<64xf32, #[[A]]> -> tensor<64xf32, #[[C]]>
// CHECK-NEXT: return %[[Y]]
func.func @convert_twice(%x: tensor<64xf32, #a>) -> tensor<64xf32, #c> {
  %y = tgpu.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
  %z = tgpu.convert_layout %y : tensor<64xf32, #b> -> tensor<64xf32, #c>
  return %z : tensor<64xf32, #c>
}

// CHECK-LABEL: func.func @convert_constant
// CHECK-NEXT: %[[C2:.*]] = tile.constant dense<2.000000e+00> : tensor<64xf32, #[[B]]>
// CHECK-NEXT: return %[[C2]]
func.func @convert_constant() -> tensor<64xf32, #b> {
  %x = tile.constant dense<2.0> : tensor<64xf32, #a>
  %y = tgpu.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
  return %y : tensor<64xf32, #b>
}

// A buffer that nobody uses goes away; a copy into one does not, nor does a barrier.
// CHECK-LABEL: func.func @effects
// CHECK-NEXT: tgpu.buffer_alloc
// CHECK-NEXT: tgpu.copy
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: return
func.func @effects(%x: tensor<64xf32, #a>) {
  %unused = tgpu.buffer_alloc : !tgpu.buffer<[64], f32>
  %b = tgpu.buffer_alloc : !tgpu.buffer<[64], f32>
  tgpu.copy %x, %b : tensor<64xf32, #a>, !tgpu.buffer<[64], f32>
  tgpu.barrier
  %r = tgpu.copy_out %b : !tgpu.buffer<[64], f32> -> tensor<64xf32, #a>
  return
}
