// SPDX-License-Identifier: Apache-2.0
// Kernels of a chain become one.
// RUN: sectile-opt %s --sectile-fuse-kernels --split-input-file --verify-diagnostics | FileCheck %s
// RUN: sectile-opt %s --sectile-fuse-kernels=keep-rounding --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=ROUND

// y = x + x, z = y * b: the tensor between them is no argument any more, and its rounding to bf16 is left out.
// CHECK-LABEL: func.func @twice_scale
// CHECK-SAME: (%arg0: !tile.tensor<2, bf16> {{.*}}, %arg1: !tile.tensor<2, bf16> {{.*}}, %arg2: !tile.tensor<2, f32>
// CHECK: %[[P:.*]]:2 = tile.grid %arg{{[0-9]+}} [64, 32]
// CHECK-NOT: tile.grid
// CHECK: %[[X:.*]] = tile.load %arg0[%[[P]]#0, %[[P]]#1]
// CHECK: %[[W:.*]] = tile.cast %[[X]]
// CHECK: %[[S:.*]] = tile.binary add %[[W]], %[[W]]
// CHECK: %[[B:.*]] = tile.load %arg1
// CHECK: %[[C:.*]] = tile.cast %[[B]]
// CHECK: %[[M:.*]] = tile.binary mul %[[S]], %[[C]]
// CHECK: tile.store %[[M]], %arg2[%[[P]]#0, %[[P]]#1]
// ROUND-LABEL: func.func @twice_scale
// ROUND: %[[S:.*]] = tile.binary add
// ROUND: %[[N:.*]] = tile.cast %[[S]] : tensor<64x32xf32> -> tensor<64x32xbf16>
// ROUND: %[[W:.*]] = tile.cast %[[N]] : tensor<64x32xbf16> -> tensor<64x32xf32>
// ROUND: tile.binary mul %[[W]]
func.func @twice(%X: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0, 1>},
                 %Y: !tile.tensor<2, bf16> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %m, %n = tile.grid %Y [64, 32] : !tile.tensor<2, bf16> -> index, index
  %x = tile.load %X[%m, %n] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %w = tile.cast %x : tensor<64x32xbf16> -> tensor<64x32xf32>
  %s = tile.binary add %w, %w : tensor<64x32xf32>
  %y = tile.cast %s : tensor<64x32xf32> -> tensor<64x32xbf16>
  tile.store %y, %Y[%m, %n] : tensor<64x32xbf16>, !tile.tensor<2, bf16>
  return
}
func.func @scale(%Y: !tile.tensor<2, bf16> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0, 1>},
                 %B: !tile.tensor<2, bf16> {tile.readonly, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0, 1>},
                 %Z: !tile.tensor<2, f32> {tile.chain_tensor = 3, tile.chain_lengths = array<i64: 0, 1>}) attributes {tile.kernel} {
  %r, %c = tile.grid %Z [64, 32] : !tile.tensor<2, f32> -> index, index
  %y = tile.load %Y[%r, %c] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %b = tile.load %B[%r, %c] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %v = tile.cast %y : tensor<64x32xbf16> -> tensor<64x32xf32>
  %w = tile.cast %b : tensor<64x32xbf16> -> tensor<64x32xf32>
  %z = tile.binary mul %v, %w : tensor<64x32xf32>
  tile.store %z, %Z[%r, %c] : tensor<64x32xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Why not: programs of other sizes.
func.func @copy(%X: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>},
                %Y: !tile.tensor<1, f32> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %x, %Y[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @wide(%Y: !tile.tensor<1, f32> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>},
                %Z: !tile.tensor<1, f32> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  // expected-remark @below {{not fused: programs of 'wide' cover [128] elements, those of 'copy' [64]}}
  %n = tile.grid %Y [128] : !tile.tensor<1, f32> -> index
  %y = tile.load %Y[%n] : !tile.tensor<1, f32> -> tensor<128xf32>
  tile.store %y, %Z[%n] : tensor<128xf32>, !tile.tensor<1, f32>
  return
}

// -----

// A tile that another program stores.
func.func @copy(%X: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>},
                %Y: !tile.tensor<1, f32> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %x, %Y[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @next(%Y: !tile.tensor<1, f32> {tile.readonly, tile.chain_temporary, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>},
                %Z: !tile.tensor<1, f32> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Z [64] : !tile.tensor<1, f32> -> index
  %one = tile.constant 1 : index
  %o = tile.binary add %n, %one : index
  // expected-remark @below {{not fused: 'next' loads along axis 0 at offsets that need not be multiples of 64, as those of 'copy' are}}
  %y = tile.load %Y[%o] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %y, %Z[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// -----

// Offsets that are equal as linear forms are equal; the store stays for others that read the tensor.
// CHECK-LABEL: func.func @copy_again
// CHECK: %[[X:.*]] = tile.load %arg0
// CHECK-NOT: tile.load
// CHECK: tile.store %[[X]], %arg1
// CHECK: tile.store %[[X]], %arg2
func.func @copy(%X: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>},
                %Y: !tile.tensor<1, f32> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %two = tile.constant 2 : index
  %m = tile.binary mul %n, %two : index
  %o = tile.binary sub %m, %n : index
  %x = tile.load %X[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %x, %Y[%o] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @again(%Y: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>},
                 %Z: !tile.tensor<1, f32> {tile.chain_tensor = 2, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Z [64] : !tile.tensor<1, f32> -> index
  %y = tile.load %Y[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %y, %Z[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// -----

// Memory of lanes that a mask leaves out, and of lanes beyond a shorter tensor. Lanes that a fill adds are left out again.
// CHECK-LABEL: func.func @filled_last
// CHECK: %[[N:.*]] = tile.grid %arg1 [64]
// CHECK: %[[F:.*]] = tile.fill
// CHECK: %[[L:.*]] = tile.dim %arg1, 0
// CHECK: %[[LEFT:.*]] = tile.binary sub %[[L]], %[[N]] : index
// CHECK: %[[I:.*]] = tile.iota 0
// CHECK: %[[E:.*]] = tile.splat %[[LEFT]]
// CHECK: %[[M:.*]] = tile.compare lt %[[I]], %[[E]]
// CHECK: %[[K:.*]] = tile.keep %[[M]], %[[F]]
// CHECK: tile.store %[[K]], %arg2
func.func @masked(%X: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>},
                  %Y: !tile.tensor<1, f32> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  %b = tile.compare lt %x, %x : tensor<64xf32> -> tensor<64xi1>
  // expected-remark @below {{not fused: 'masked' may leave out lanes of the tile that it stores}}
  %k = tile.keep %b, %x : tensor<64xi1>, tensor<64xf32>
  tile.store %k, %Y[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @shorter(%Y: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>},
                   %S: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 2, tile.chain_lengths = array<i64: 1>},
                   %Z: !tile.tensor<1, f32> {tile.chain_tensor = 3, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Z [64] : !tile.tensor<1, f32> -> index
  %y = tile.load %Y[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  %s = tile.load %S[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  %z = tile.binary add %y, %s : tensor<64xf32>
  // expected-remark @below {{not fused: what 'shorter' stores ends along axis 0 where another tensor does}}
  tile.store %z, %Z[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @filled(%Z: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 3, tile.chain_lengths = array<i64: 0>},
                  %W: !tile.tensor<1, f32> {tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %W [64] : !tile.tensor<1, f32> -> index
  %z = tile.load %Z[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  %0 = tile.constant 0.0 : f32
  %f = tile.fill %z, %0 : tensor<64xf32>, f32
  tile.store %f, %W[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @last(%W: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 4, tile.chain_lengths = array<i64: 0>},
                %V: !tile.tensor<1, f32> {tile.chain_tensor = 5, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %V [64] : !tile.tensor<1, f32> -> index
  %w = tile.load %W[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %w, %V[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// -----

// The second writes what programs of the first may still read.
func.func @read(%X: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>},
                %Y: !tile.tensor<1, f32> {tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %Y [64] : !tile.tensor<1, f32> -> index
  %x = tile.load %X[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %x, %Y[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
func.func @write(%Y: !tile.tensor<1, f32> {tile.readonly, tile.chain_tensor = 1, tile.chain_lengths = array<i64: 0>},
                 %X: !tile.tensor<1, f32> {tile.chain_tensor = 0, tile.chain_lengths = array<i64: 0>}) attributes {tile.kernel} {
  %n = tile.grid %X [64] : !tile.tensor<1, f32> -> index
  %y = tile.load %Y[%n] : !tile.tensor<1, f32> -> tensor<64xf32>
  // expected-remark @below {{not fused: 'write' writes a tensor that programs of 'read' may still read}}
  tile.store %y, %X[%n] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
