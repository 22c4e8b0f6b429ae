// SPDX-License-Identifier: Apache-2.0
// Operands whose rows are no multiples of 16 bytes are copied by threads of the producer, 4 bytes at a time or 8; rows of sums that the TMA unit
// cannot write are stored by warps. Both say why.
// RUN: sectile-opt %s --sectile-lower | FileCheck %s

!T = !tile.tensor<2, bf16>

// CHECK: func.func @narrow
// CHECK-SAME: pass = "StageOperands", text = "threads of the producer copy an operand to shared memory, 4 bytes at a time: argument 0 has a stride along axis 0 that is a multiple of 4 bytes, in a tensor map it is one of 16"
// CHECK-SAME: pass = "StageOperands", text = "threads of the producer copy an operand to shared memory, 8 bytes at a time: argument 1 starts at a multiple of 8 bytes, a tensor map at one of 16"
// CHECK-SAME: pass = "StoreBoxes", text = "threads store the tile, in whole rows through shared memory: argument 2 starts at a multiple of 2 bytes, a tensor map at one of 16"
// CHECK: tgpu.pipe_create full 128 empty 8
// CHECK: tgpu.roles registers 72 producer
// CHECK: tgpu.pipe_acquire %[[P:.*]] bytes 0
// CHECK-NEXT: tgpu.async_load %arg0[%{{.*}}] map(#tgpu.map<order = [1, 0], box = [64, 128], swizzle = 128, limits = [{{.*}}]>) to %[[P]][0] by 4
// CHECK-NEXT: tgpu.async_load %arg1[%{{.*}}] map(#tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = [{{.*}}]>) to %[[P]][1] by 8
// CHECK-NEXT: tgpu.async_arrive %[[P]]
// CHECK-NEXT: tgpu.pipe_commit %[[P]]
// CHECK: } registers 216 consumer
// CHECK: %[[S:.*]]:2 = tgpu.pipe_wait %[[P]]
// CHECK-NEXT: tgpu.fence_async
// CHECK: tgpu.wgmma
// CHECK-NOT: tgpu.global_store
// CHECK: tgpu.bulk_store {{.*}} through %{{.*}} {tgpu.by_threads}
func.func @narrow(%A: !T {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 1, 1>, tile.stride_div = array<i64: 2, 1>, tile.unit_stride = 1, tile.small},
                  %B: !T {tile.readonly, tile.align = 8, tile.dim_div = array<i64: 1, 4>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %C: !T {tile.align = 2, tile.dim_div = array<i64: 1, 1>, tile.stride_div = array<i64: 1, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %C [128, 256] : !T -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !T
  %init = tile.constant dense<0.0> : tensor<128x256xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<128x256xf32> {
    %a = tile.load %A[%m, %k] : !T -> tensor<128x64xbf16>
    %b = tile.load %B[%k, %n] : !T -> tensor<64x256xbf16>
    %next = tile.mma exact %a, %b, %acc : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<128x256xf32>
    scf.yield %next : tensor<128x256xf32>
  }
  %c = tile.cast %r : tensor<128x256xf32> -> tensor<128x256xbf16>
  tile.store %c, %C[%m, %n] : tensor<128x256xbf16>, !T
  return
}
