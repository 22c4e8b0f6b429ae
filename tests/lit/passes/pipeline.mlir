// SPDX-License-Identifier: Apache-2.0
// A matrix product, all the way: two barriers per chunk of K, none in the epilogue.
// RUN: sectile-opt %s --sectile-lower-warps | FileCheck %s

// CHECK-LABEL: func.func @matmul
// CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<64x64xf32, {{.*}}>) {
// CHECK: tgpu.global_load
// CHECK: tgpu.global_load
// CHECK: tgpu.barrier
// CHECK: tgpu.copy
// CHECK: tgpu.copy
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: %[[A:.*]] = tgpu.copy_out
// CHECK-NEXT: %[[B:.*]] = tgpu.copy_out
// CHECK-NEXT: %[[R:.*]] = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %[[A]], %[[B]], %[[ACC]]
// CHECK-NEXT: scf.yield %[[R]]
// CHECK-NOT: tgpu.barrier
// CHECK: tgpu.global_store
func.func @matmul(%A: !tile.tensor<2, bf16>, %B: !tile.tensor<2, bf16>, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 32 : index
  %K = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<64x64xf32> {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<32x64xbf16>
    %next = tile.mma exact %a, %b, %acc : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store %r, %C[%m, %n] : tensor<64x64xf32>, !tile.tensor<2, f32>
  return
}
