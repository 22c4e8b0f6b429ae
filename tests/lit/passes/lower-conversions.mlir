// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-lower-conversions | FileCheck %s

#rows = #tgpu.layout<"core=[32,32] reps=[1,1] reg=[(1,0),(2,0),(4,0),(8,0),(16,0)] lane=[(0,1),(0,2),(0,4),(0,8),(0,16)] warp=[]">
#cols = #tgpu.layout<"core=[32,32] reps=[1,1] reg=[(0,1),(0,2),(0,4),(0,8),(0,16)] lane=[(1,0),(2,0),(4,0),(8,0),(16,0)] warp=[]">
#renamed = #tgpu.layout<"core=[32,32] reps=[1,1] reg=[(16,0),(2,0),(4,0),(8,0),(1,0)] lane=[(0,1),(0,2),(0,4),(0,8),(0,16)] warp=[]">

// A column per lane would meet one bank: the columns of a row are swizzled. Both buffers are written, then read.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[A:.*]] = tgpu.buffer_alloc : !tgpu.buffer<[32, 32], f32, [{{.*}}]>
// CHECK: tgpu.copy %arg0, %[[A]]
// CHECK: %[[B:.*]] = tgpu.buffer_alloc
// CHECK: tgpu.copy %arg1, %[[B]]
// CHECK: tgpu.copy_out %[[A]]
// CHECK: tgpu.copy_out %[[B]]
// CHECK-NOT: tgpu.convert_layout
func.func @transposed(%x: tensor<32x32xf32, #rows>, %y: tensor<32x32xf32, #rows>) -> (tensor<32x32xf32, #cols>, tensor<32x32xf32, #cols>) {
  %a = tgpu.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
  %b = tgpu.convert_layout %y : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
  return %a, %b : tensor<32x32xf32, #cols>, tensor<32x32xf32, #cols>
}

#few = #tgpu.layout<"core=[8,8] reps=[1,1] reg=[] lane=[(0,1),(0,2),(1,0),(2,0),(4,0)] warp=[(0,4)]">
#turned = #tgpu.layout<"core=[8,8] reps=[1,1] reg=[] lane=[(1,0),(2,0),(4,0),(0,4),(0,2)] warp=[(0,1)]">

// What stands between and waits for neither goes before both, what waits for the first goes behind the second.
// CHECK-LABEL: func.func @apart
// CHECK: %[[N:.*]] = tile.unary neg %arg1
// CHECK: tgpu.copy %arg0, %[[A:.*]] :
// CHECK: tgpu.copy %[[N]], %[[B:.*]] :
// CHECK-NEXT: %[[X:.*]] = tgpu.copy_out %[[A]]
// CHECK-NEXT: %[[Y:.*]] = tgpu.copy_out %[[B]]
// CHECK-NEXT: %[[M:.*]] = tile.unary neg %[[X]]
// CHECK-NEXT: return %[[M]], %[[Y]]
func.func @apart(%x: tensor<8x8xf32, #few>, %y: tensor<8x8xf32, #few>) -> (tensor<8x8xf32, #turned>, tensor<8x8xf32, #turned>) {
  %a = tgpu.convert_layout %x : tensor<8x8xf32, #few> -> tensor<8x8xf32, #turned>
  %m = tile.unary neg %a : tensor<8x8xf32, #turned> -> tensor<8x8xf32, #turned>
  %n = tile.unary neg %y : tensor<8x8xf32, #few> -> tensor<8x8xf32, #few>
  %b = tgpu.convert_layout %n : tensor<8x8xf32, #few> -> tensor<8x8xf32, #turned>
  return %m, %b : tensor<8x8xf32, #turned>, tensor<8x8xf32, #turned>
}

// A large result does not come early: it would lie in registers meanwhile.
// CHECK-LABEL: func.func @large
// CHECK: tgpu.copy_out
// CHECK: tile.unary neg
// CHECK: tgpu.copy %
// CHECK: tgpu.copy_out
func.func @large(%x: tensor<32x32xf32, #rows>, %y: tensor<32x32xf32, #rows>) -> (tensor<32x32xf32, #cols>, tensor<32x32xf32, #cols>) {
  %a = tgpu.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
  %n = tile.unary neg %y : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #rows>
  %b = tgpu.convert_layout %n : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
  return %a, %b : tensor<32x32xf32, #cols>, tensor<32x32xf32, #cols>
}

// A conversion of what another made waits for it.
// CHECK-LABEL: func.func @chain
// CHECK: tgpu.copy %arg0
// CHECK-NEXT: tgpu.copy_out
// CHECK: tgpu.copy
// CHECK-NEXT: tgpu.copy_out
func.func @chain(%x: tensor<32x32xf32, #rows>) -> tensor<32x32xf32, #rows> {
  %a = tgpu.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
  %m = tile.unary neg %a : tensor<32x32xf32, #cols> -> tensor<32x32xf32, #cols>
  %b = tgpu.convert_layout %m : tensor<32x32xf32, #cols> -> tensor<32x32xf32, #rows>
  return %b : tensor<32x32xf32, #rows>
}

// Only registers differ: it stays.
// CHECK-LABEL: func.func @renamed
// CHECK-NEXT: tgpu.convert_layout
// CHECK-NEXT: return
func.func @renamed(%x: tensor<32x32xf32, #rows>) -> tensor<32x32xf32, #renamed> {
  %a = tgpu.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #renamed>
  return %a : tensor<32x32xf32, #renamed>
}

// CHECK-LABEL: func.func @invariant
// CHECK: tgpu.copy_out
// CHECK-NEXT: scf.for
// CHECK-NOT: tgpu.copy_out
// CHECK: return
func.func @invariant(%x: tensor<32x32xf32, #rows>, %n: index) -> tensor<32x32xf32, #cols> {
  %zero = tile.constant 0 : index
  %one = tile.constant 1 : index
  %init = tile.constant dense<0.0> : tensor<32x32xf32, #cols>
  %r = scf.for %i = %zero to %n step %one iter_args(%sum = %init) -> tensor<32x32xf32, #cols> {
    %a = tgpu.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #cols>
    %next = tile.binary add %sum, %a : tensor<32x32xf32, #cols>
    scf.yield %next : tensor<32x32xf32, #cols>
  }
  return %r : tensor<32x32xf32, #cols>
}

#words = #tgpu.layout<"core=[32,8] reps=[1,1] reg=[(0,1),(0,2),(0,4)] lane=[(1,0),(2,0),(4,0),(8,0),(16,0)] warp=[]">
#rotated = #tgpu.layout<"core=[32,8] reps=[1,1] reg=[(0,1),(0,2),(0,4)] lane=[(16,0),(1,0),(2,0),(4,0),(8,0)] warp=[]">

// Lanes exchange whole registers: eight shuffles, no memory.
// CHECK-LABEL: func.func @shuffled
// CHECK-NEXT: tgpu.convert_layout
// CHECK-NEXT: return
func.func @shuffled(%x: tensor<32x8xf32, #words>) -> tensor<32x8xf32, #rotated> {
  %a = tgpu.convert_layout %x : tensor<32x8xf32, #words> -> tensor<32x8xf32, #rotated>
  return %a : tensor<32x8xf32, #rotated>
}

#rows16 = #tgpu.layout<"core=[32,64] reps=[1,1] reg=[(0,1),(0,2),(0,4),(4,0),(8,0),(16,0)] lane=[(0,8),(0,16),(0,32),(1,0),(2,0)] warp=[]">
#fragment = #tgpu.layout<"core=[32,64] reps=[1,1] reg=[(1,0),(8,0),(16,0),(0,8),(0,16),(0,32)] lane=[(2,0),(4,0),(0,1),(0,2),(0,4)] warp=[]">

// Chunks of 16 bytes stay whole, for vectors on one side and ldmatrix, transposed, on the other.
// CHECK-LABEL: func.func @matrices
// CHECK: tgpu.buffer_alloc : !tgpu.buffer<[32, 64], bf16, [8, 3, 8, 16, 32]>
func.func @matrices(%x: tensor<32x64xbf16, #rows16>) -> tensor<32x64xbf16, #fragment> attributes {tgpu.target = "sm_90a"} {
  %a = tgpu.convert_layout %x : tensor<32x64xbf16, #rows16> -> tensor<32x64xbf16, #fragment>
  return %a : tensor<32x64xbf16, #fragment>
}

#down = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(1,0),(2,0),(4,0),(0,4),(0,8),(0,16),(0,32)] lane=[(8,0),(16,0),(32,0),(0,1),(0,2)] warp=[]">
#operand = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(1,0),(8,0),(16,0),(32,0),(0,8),(0,16),(0,32)] lane=[(2,0),(4,0),(0,1),(0,2),(0,4)] warp=[]">

// Neighbours of both sides lie along the first axis: it is the last one of the buffer, where 16 bytes are written at once.
// CHECK-LABEL: func.func @along_the_first
// CHECK: %[[T:.*]] = tile.permute %arg0 [1, 0]
// CHECK: %[[B:.*]] = tgpu.buffer_alloc : !tgpu.buffer<[64, 64], bf16
// CHECK: tgpu.copy %[[T]], %[[B]]
// CHECK: %[[R:.*]] = tgpu.copy_out %[[B]]
// CHECK: tile.permute %[[R]] [1, 0]
func.func @along_the_first(%x: tensor<64x64xbf16, #down>) -> tensor<64x64xbf16, #operand> {
  %a = tgpu.convert_layout %x : tensor<64x64xbf16, #down> -> tensor<64x64xbf16, #operand>
  return %a : tensor<64x64xbf16, #operand>
}
