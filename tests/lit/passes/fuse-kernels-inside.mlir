// SPDX-License-Identifier: Apache-2.0
// Kernels that run where the next one loads, and loops that load the same tiles.
// RUN: sectile-opt %s --sectile-fuse-kernels --split-input-file --verify-diagnostics | FileCheck %s

// What scales rows runs in the loop of the product, at the tile that a trip loads. The tensor between is no argument any more.
// CHECK-LABEL: func.func @scale_product
// CHECK-SAME: (%arg0: !tile.tensor<2, bf16> {{.*}}, %arg1: !tile.tensor<2, f32> {{.*}}, %arg2: !tile.tensor<2, bf16> {{.*}}, %arg3: !tile.tensor<2, f32> {{.*}}) attributes
// CHECK: %[[P:.*]]:2 = tile.grid %arg3 [32, 64]
// CHECK: scf.for %[[K:[^ ]*]] =
// CHECK-DAG: %[[X:.*]] = tile.load %arg0[%[[P]]#0, %[[K]]]
// CHECK-DAG: tile.load %arg1[%[[P]]#0,
// CHECK: %[[Y:.*]] = tile.cast {{.*}} -> tensor<32x16xbf16>
// CHECK: tile.mma exact %[[Y]],
// CHECK-NOT: tile.grid
// CHECK: tile.store
// CHECK-NEXT: return
func.func @scale(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                 %S: !tile.tensor<2, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 5>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Y [32, 16] : !tile.tensor<2, bf16> -> index, index
  %0 = tile.constant 0 : index
  %x = tile.load %X[%r, %c] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
  %s = tile.load %S[%r, %0] : !tile.tensor<2, f32> -> tensor<32x1xf32>
  %w = tile.cast %x : tensor<32x16xbf16> -> tensor<32x16xf32>
  %b = tile.broadcast %s : tensor<32x1xf32> -> tensor<32x16xf32>
  %p = tile.binary mul %w, %b : tensor<32x16xf32>
  %y = tile.cast %p : tensor<32x16xf32> -> tensor<32x16xbf16>
  tile.store %y, %Y[%r, %c] : tensor<32x16xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @product(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Trips that begin between tiles would need two programs of the first.
func.func @scale(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                 %S: !tile.tensor<2, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 5>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Y [32, 16] : !tile.tensor<2, bf16> -> index, index
  %0 = tile.constant 0 : index
  %x = tile.load %X[%r, %c] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
  %s = tile.load %S[%r, %0] : !tile.tensor<2, f32> -> tensor<32x1xf32>
  %w = tile.cast %x : tensor<32x16xbf16> -> tensor<32x16xf32>
  %b = tile.broadcast %s : tensor<32x1xf32> -> tensor<32x16xf32>
  %p = tile.binary mul %w, %b : tensor<32x16xf32>
  %y = tile.cast %p : tensor<32x16xf32> -> tensor<32x16xbf16>
  tile.store %y, %Y[%r, %c] : tensor<32x16xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @product(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %1 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    // expected-remark @below {{not fused: 'product' loads along axis 1 at offsets that need not be multiples of 16, as those of 'scale' are}}
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// A tensor that a third kernel reads, too. (Its programs cover other tiles, which is said first.)
func.func @scale(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                 %S: !tile.tensor<2, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 5>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Y [32, 16] : !tile.tensor<2, bf16> -> index, index
  %0 = tile.constant 0 : index
  %x = tile.load %X[%r, %c] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
  %s = tile.load %S[%r, %0] : !tile.tensor<2, f32> -> tensor<32x1xf32>
  %w = tile.cast %x : tensor<32x16xbf16> -> tensor<32x16xf32>
  %b = tile.broadcast %s : tensor<32x1xf32> -> tensor<32x16xf32>
  %p = tile.binary mul %w, %b : tensor<32x16xf32>
  %y = tile.cast %p : tensor<32x16xf32> -> tensor<32x16xbf16>
  tile.store %y, %Y[%r, %c] : tensor<32x16xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @product(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  // expected-remark @below {{not fused: programs of 'product' cover [32, 64] elements, those of 'scale' [32, 16]}}
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// What only some lanes of a tile are.
func.func @scale(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                 %S: !tile.tensor<2, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 5>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Y [32, 16] : !tile.tensor<2, bf16> -> index, index
  %0 = tile.constant 0 : index
  %x = tile.load %X[%r, %c] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
  %s = tile.load %S[%r, %0] : !tile.tensor<2, f32> -> tensor<32x1xf32>
  %w = tile.cast %x : tensor<32x16xbf16> -> tensor<32x16xf32>
  %b = tile.broadcast %s : tensor<32x1xf32> -> tensor<32x16xf32>
  %p = tile.binary mul %w, %b : tensor<32x16xf32>
  %y = tile.cast %p : tensor<32x16xf32> -> tensor<32x16xbf16>
  %less = tile.compare lt %w, %b : tensor<32x16xf32> -> tensor<32x16xi1>
  // expected-remark @below {{not fused: 'scale' may leave out lanes of the tile that it stores}}
  %y2 = tile.keep %less, %y : tensor<32x16xi1>, tensor<32x16xbf16>
  tile.store %y2, %Y[%r, %c] : tensor<32x16xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @product(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Programs that store beside their own tile.
func.func @scale(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                 %S: !tile.tensor<2, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 5>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Y [32, 16] : !tile.tensor<2, bf16> -> index, index
  %0 = tile.constant 0 : index
  %x = tile.load %X[%r, %c] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
  %s = tile.load %S[%r, %0] : !tile.tensor<2, f32> -> tensor<32x1xf32>
  %w = tile.cast %x : tensor<32x16xbf16> -> tensor<32x16xf32>
  %b = tile.broadcast %s : tensor<32x1xf32> -> tensor<32x16xf32>
  %p = tile.binary mul %w, %b : tensor<32x16xf32>
  %y = tile.cast %p : tensor<32x16xf32> -> tensor<32x16xbf16>
  %sixteen = tile.constant 16 : index
  %o = tile.binary add %c, %sixteen : index
  tile.store %y, %Y[%r, %o] : tensor<32x16xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @product(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    // expected-remark @below {{not fused: 'product' loads at another offset along axis 1 than 'scale' stores}}
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Two products that load the same tiles of one matrix: one loop, one load of it.
// CHECK-LABEL: func.func @gate_up
// CHECK: scf.for %[[K:[^ ]*]] ={{.*}} -> (tensor<32x64xf32>, tensor<32x64xf32>)
// CHECK: %[[A:.*]] = tile.load %arg0
// CHECK: tile.mma exact %[[A]],
// CHECK-NOT: tile.load %arg0
// CHECK: tile.mma exact %[[A]],
// CHECK-NOT: scf.for
// CHECK: tile.store {{.*}}, %arg2
// CHECK: tile.store {{.*}}, %arg4
func.func @gate(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}
func.func @up(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Loops of other trips load other tiles.
func.func @gate(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %0 to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}
// expected-remark @below {{not fused: 'up' loads nothing that 'gate' stores, and no loops of both load the same tiles}}
func.func @up(%A: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 2>},
                   %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 2, 1>},
                   %C: !tile.tensor<2, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %C [32, 64] : !tile.tensor<2, f32> -> index, index
  %0 = tile.constant 0 : index
  %1 = tile.constant 1 : index
  %step = tile.constant 16 : index
  %z = tile.constant dense<0.0> : tensor<32x64xf32>
  %end = tile.dim %A, 1 : !tile.tensor<2, bf16>
  %acc = scf.for %k = %step to %end step %step iter_args(%s = %z) -> (tensor<32x64xf32>) {
    %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
    %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x64xbf16>
    %t = tile.mma exact %a, %b, %s : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32>
    scf.yield %t : tensor<32x64xf32>
  }
  tile.store %acc, %C[%m, %n] : tensor<32x64xf32>, !tile.tensor<2, f32>
  return
}
