// SPDX-License-Identifier: Apache-2.0
// A row over four blocks: the parts of all warps go to all blocks, the two sums together; one wait for the blocks
// to run, no barrier.
// RUN: sectile-opt %s --sectile-lower | FileCheck %s

// CHECK-LABEL: func.func @moments
// CHECK-SAME: #tgpu.launch<warps = 16, shared_bytes = 528, cluster = 4>
// CHECK: tgpu.global_load
// CHECK: %[[P:.*]] = tgpu.reduce sum %{{.*}}, 1 : tensor<1x65536xf32, {{.*}}> -> tensor<1x64xf32
// CHECK: %[[Q:.*]] = tgpu.reduce sum %{{.*}}, 1 : tensor<1x65536xf32, {{.*}}> -> tensor<1x64xf32
// CHECK: %[[A:.*]] = tgpu.buffer_alloc at 0
// CHECK-NEXT: tgpu.cluster_start
// CHECK-NEXT: tgpu.peer_copy %[[P]], %[[A]] at 512
// CHECK-NEXT: %[[B:.*]] = tgpu.buffer_alloc at 256
// CHECK-NEXT: tgpu.peer_copy %[[Q]], %[[B]] at 520
// CHECK-NEXT: tgpu.peer_wait %[[A]] at 512
// CHECK-NEXT: tgpu.copy_out %[[A]]
// CHECK-NEXT: tgpu.peer_wait %[[B]] at 520
// CHECK-NEXT: tgpu.copy_out %[[B]]
// CHECK-NOT: tgpu.barrier
// CHECK-NOT: tgpu.convert_layout
func.func @moments(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %r = tile.grid %Y [1] : !tile.tensor<2, f32> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, f32> -> tensor<1x65536xf32>
  %s = tile.reduce sum %x, 1 : tensor<1x65536xf32> -> tensor<1x1xf32>
  %q = tile.binary mul %x, %x : tensor<1x65536xf32>
  %t = tile.reduce sum %q, 1 : tensor<1x65536xf32> -> tensor<1x1xf32>
  %y = tile.binary mul %s, %t : tensor<1x1xf32>
  tile.store %y, %Y[%r, %z] : tensor<1x1xf32>, !tile.tensor<2, f32>
  return
}

// The bits of floats of less than four bytes travel in words: infinities of e5m2 arrive. Before the next iteration sends into the same bytes, all
// blocks have read them.
// CHECK-LABEL: func.func @loop
// CHECK: tgpu.cluster_start
// CHECK: scf.for
// CHECK-NEXT: tgpu.barrier cluster
// CHECK: tgpu.bits %{{.*}} : tensor<1x64xbf16, {{.*}}> -> tensor<1x64xi32
// CHECK-NEXT: tgpu.buffer_alloc
// CHECK-NEXT: tgpu.peer_copy
// CHECK-NEXT: tgpu.peer_wait
// CHECK-NEXT: tgpu.copy_out
// CHECK-NEXT: tgpu.bits %{{.*}} : tensor<1x64xi32, {{.*}}> -> tensor<1x64xbf16
// CHECK-NOT: tgpu.barrier
// CHECK: return
func.func @loop(%X: !tile.tensor<2, bf16>, %Y: !tile.tensor<2, bf16>) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %n = tile.dim %X, 0 : !tile.tensor<2, bf16>
  scf.for %r = %z to %n step %one {
    %x = tile.load %X[%r, %z] : !tile.tensor<2, bf16> -> tensor<1x65536xbf16>
    %s = tile.reduce max %x, 1 : tensor<1x65536xbf16> -> tensor<1x1xbf16>
    tile.store %s, %Y[%r, %z] : tensor<1x1xbf16>, !tile.tensor<2, bf16>
  }
  return
}
