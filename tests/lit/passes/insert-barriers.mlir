// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-insert-barriers | FileCheck %s

#l = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">

// Write, read, write again; bytes that do not overlap need nothing.
// CHECK-LABEL: func.func @straight
// CHECK: tgpu.copy
// CHECK-NEXT: tgpu.copy
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
// CHECK-NEXT: tgpu.copy_out
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy
func.func @straight(%x: tensor<64xf32, #l>) {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  %b = tgpu.buffer_alloc at 256 : !tgpu.buffer<[64], f32>
  tgpu.copy %x, %a : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  tgpu.copy %x, %b : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  %z = tgpu.copy_out %b : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  tgpu.copy %y, %a : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  return
}

// Around the loop: the next iteration's write waits for this one's read.
// CHECK-LABEL: func.func @loop
// CHECK: scf.for
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
// CHECK-NEXT: }
func.func @loop(%x: tensor<64xf32, #l>, %n: index) {
  %zero = tile.constant 0 : index
  %one = tile.constant 1 : index
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  scf.for %i = %zero to %n step %one {
    tgpu.copy %x, %a : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
    %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  }
  return
}

// A write in one branch counts after both.
// CHECK-LABEL: func.func @branch
// CHECK: scf.if
// CHECK-NEXT: tgpu.copy
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
func.func @branch(%x: tensor<64xf32, #l>, %c: i1) {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  scf.if %c {
    tgpu.copy %x, %a : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  }
  %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  return
}

// Global memory that a program wrote itself, at an offset where other threads wrote.
// CHECK-LABEL: func.func @global
// CHECK: tgpu.global_load
// CHECK-NEXT: tgpu.global_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.global_load
func.func @global(%X: !tile.tensor<1, f32>, %i: index, %j: index) {
  %x = tgpu.global_load %X[%i] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<64xf32, #l>
  tgpu.global_store %x, %X[%i] axes [] lo[] hi[] : tensor<64xf32, #l>, !tile.tensor<1, f32>
  %y = tgpu.global_load %X[%j] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<64xf32, #l>
  return
}

// What the last run of `before` did is open behind a while loop.
// CHECK-LABEL: func.func @while
// CHECK: scf.while
// CHECK: tgpu.copy
// CHECK: scf.condition
// CHECK: tgpu.barrier
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
func.func @while(%x: tensor<64xf32, #l>, %c: i1) {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  scf.while : () -> () {
    tgpu.copy %x, %a : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
    scf.condition(%c)
  } do {
    tgpu.barrier
    scf.yield
  }
  %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  return
}

// The barrier that another op needs is the only one between a write and the product that reads it: the fence stands there.
// CHECK-LABEL: func.func @fence
// CHECK: tgpu.copy
// CHECK: tgpu.copy
// CHECK-NEXT: tgpu.fence_async
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
// CHECK-NEXT: tgpu.wgmma
// CHECK-NOT: tgpu.barrier
#rows = #tgpu.layout<"core=[1,64,64] reps=[1,1,1] reg=[(0,0,1),(0,0,2),(0,0,4),(0,0,8),(0,0,16)] lane=[(0,0,32),(0,1,0),(0,2,0),(0,4,0),(0,8,0)] warp=[(0,16,0),(0,32,0)]">
#acc = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
func.func @fence(%x: tensor<1x64x64xbf16, #rows>, %sum: tensor<64x64xf32, #acc>) {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
  %b = tgpu.buffer_alloc at 8192 : !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
  tgpu.copy %x, %a : tensor<1x64x64xbf16, #rows>, !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
  tgpu.copy %x, %b : tensor<1x64x64xbf16, #rows>, !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
  %y = tgpu.copy_out %b : !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]> -> tensor<1x64x64xbf16, #rows>
  %r = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %a, %sum : !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, tensor<64x64xf32, #acc>
  return
}

// In a turn of a warpgroup nobody waits for the other one: where a barrier is needed there, no turns are taken.
// CHECK-LABEL: func.func @turn
// CHECK-SAME: pass = "InsertBarriers"
// CHECK-SAME: could have turns, but all threads meet in it
// CHECK-NOT: tgpu.turn
// CHECK: tgpu.barrier
// CHECK-NOT: tgpu.turn_pass
// CHECK-LABEL: func.func @turns
// CHECK-SAME: tgpu.turns
// CHECK: tgpu.copy {{.*}}tgpu.turn_take
// CHECK: tgpu.fence_async {tgpu.turn_pass}
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.copy_out
func.func @turn(%x: tensor<64xf32, #l>) attributes {tgpu.turns} {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  tgpu.copy %x, %a {tgpu.turn_take} : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  tgpu.fence_async {tgpu.turn_pass}
  return
}
func.func @turns(%x: tensor<64xf32, #l>) attributes {tgpu.turns} {
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[64], f32>
  tgpu.copy %x, %a {tgpu.turn_take} : tensor<64xf32, #l>, !tgpu.buffer<[64], f32>
  tgpu.fence_async {tgpu.turn_pass}
  %y = tgpu.copy_out %a : !tgpu.buffer<[64], f32> -> tensor<64xf32, #l>
  return
}

// What programs of one kernel write is nothing that the next one waits for, with a producer beside them or without.
// CHECK-LABEL: func.func @programs
// CHECK-NOT: tgpu.barrier
// CHECK: return
func.func @programs(%X: !tile.tensor<1, f32>, %x: tensor<64xf32, #l>) attributes {tgpu.persistent, tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %X [64] : !tile.tensor<1, f32>
    scf.for %i = %first to %programs step %step {
      %at = tgpu.program %i of %X [64] group 1 : !tile.tensor<1, f32> -> index
      tgpu.global_store %x, %X[%at] axes [] lo[] hi[] : tensor<64xf32, #l>, !tile.tensor<1, f32>
    }
  }
  return
}
