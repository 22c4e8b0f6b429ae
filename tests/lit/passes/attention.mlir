// SPDX-License-Identifier: Apache-2.0
// Attention, all the way: the probabilities become the operand of the second product in their registers, so only Q, K
// and V go through shared memory, Q once.
// RUN: sectile-opt %s --sectile-lower-warps | FileCheck %s
// Probabilities that stay masked: V is looked at for infinities and NaN; the usual branch is the same product.
// RUN: sed 's/cast \(.\)pf /cast \1p /' %s | sectile-opt --sectile-lower-warps | FileCheck %s --check-prefix=MASKED

// CHECK-LABEL: func.func @attn
// CHECK: tgpu.buffer_alloc
// CHECK: scf.for
// CHECK: tgpu.buffer_alloc
// CHECK: tgpu.mma_sync
// CHECK-NOT: tgpu.convert_layout
// CHECK: tgpu.reduce max
// CHECK-NOT: tgpu.convert_layout
// CHECK: tgpu.buffer_alloc
// CHECK: tgpu.mma_sync
// CHECK-NEXT: scf.yield
// Keys that masks or the end of K leave out have a loop of their own behind the others.
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK: return

// MASKED-LABEL: func.func @attn
// MASKED: scf.for
// MASKED: tgpu.mma_sync
// MASKED-NOT: scf.if
// MASKED: tgpu.reduce all
// MASKED: scf.if
// MASKED: tgpu.buffer_alloc
// MASKED-NOT: tgpu.buffer_alloc
// MASKED-NOT: tgpu.convert_layout
// MASKED: tgpu.mma_sync
// MASKED-NEXT: scf.yield
// MASKED-NEXT: } else {
// MASKED: scf.for
// MASKED: tgpu.mma_sync
// MASKED: return
func.func @attn(%Q: !tile.tensor<4, bf16> {tile.align = 16 : i64, tile.unit_stride = 3 : i64, tile.stride_div = array<i64: 16, 16, 16, 1>, tile.dim_div = array<i64: 1, 1, 16, 16>}, %K: !tile.tensor<4, bf16> {tile.align = 16 : i64, tile.unit_stride = 3 : i64, tile.stride_div = array<i64: 16, 16, 16, 1>, tile.dim_div = array<i64: 1, 1, 16, 16>}, %V: !tile.tensor<4, bf16> {tile.align = 16 : i64, tile.unit_stride = 3 : i64, tile.stride_div = array<i64: 16, 16, 16, 1>, tile.dim_div = array<i64: 1, 1, 16, 16>}, %O: !tile.tensor<4, bf16> {tile.align = 16 : i64, tile.unit_stride = 3 : i64, tile.stride_div = array<i64: 16, 16, 16, 1>, tile.dim_div = array<i64: 1, 1, 16, 16>}, %L: !tile.tensor<3, f32>, %scale: f32) attributes {tile.kernel} {
  %b, %h, %i = tile.grid %Q [1, 1, 128] : !tile.tensor<4, bf16> -> index, index, index
  %c0 = tile.constant 0 : index
  %bn = tile.constant 64 : index
  %none = tile.constant 0.0 : f32
  %q4 = tile.load %Q[%b, %h, %i, %c0] : !tile.tensor<4, bf16> -> tensor<1x1x128x64xbf16>
  %q = tile.reshape %q4 : tensor<1x1x128x64xbf16> -> tensor<128x64xbf16>
  %o0 = tile.constant dense<0.0> : tensor<128x64xf32>
  %m0 = tile.constant dense<0xFF800000> : tensor<128x1xf32>
  %l0 = tile.constant dense<0.0> : tensor<128x1xf32>
  %z = tile.constant dense<0.0> : tensor<128x64xf32>
  %sc = tile.splat %scale : f32 -> tensor<128x64xf32>
  %N = tile.dim %K, 2 : !tile.tensor<4, bf16>
  %r:3 = scf.for %j = %c0 to %N step %bn iter_args(%o = %o0, %m = %m0, %l = %l0) -> (tensor<128x64xf32>, tensor<128x1xf32>, tensor<128x1xf32>) {
    %k4 = tile.load %K[%b, %h, %j, %c0] : !tile.tensor<4, bf16> -> tensor<1x1x64x64xbf16>
    %k = tile.reshape %k4 : tensor<1x1x64x64xbf16> -> tensor<64x64xbf16>
    %kt = tile.permute %k [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s0 = tile.mma exact %q, %kt, %z : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    %s1 = tile.binary mul %s0, %sc : tensor<128x64xf32>
    %ii = tile.iota 0 : tensor<128x1xindex>
    %is = tile.splat %i : index -> tensor<128x1xindex>
    %qi = tile.binary add %ii, %is : tensor<128x1xindex>
    %ji = tile.iota 1 : tensor<1x64xindex>
    %js = tile.splat %j : index -> tensor<1x64xindex>
    %kj = tile.binary add %ji, %js : tensor<1x64xindex>
    %qb = tile.broadcast %qi : tensor<128x1xindex> -> tensor<128x64xindex>
    %kb = tile.broadcast %kj : tensor<1x64xindex> -> tensor<128x64xindex>
    %cm = tile.compare ge %qb, %kb : tensor<128x64xindex> -> tensor<128x64xi1>
    %s = tile.keep %cm, %s1 : tensor<128x64xi1>, tensor<128x64xf32>
    %rm = tile.reduce max %s, 1 : tensor<128x64xf32> -> tensor<128x1xf32>
    %nm = tile.binary max %m, %rm : tensor<128x1xf32>
    %nmb = tile.broadcast %nm : tensor<128x1xf32> -> tensor<128x64xf32>
    %d = tile.binary sub %s, %nmb : tensor<128x64xf32>
    %p = tile.unary exp %d : tensor<128x64xf32> -> tensor<128x64xf32>
    %dm = tile.binary sub %m, %nm : tensor<128x1xf32>
    %a = tile.unary exp %dm : tensor<128x1xf32> -> tensor<128x1xf32>
    %ps = tile.reduce sum %p, 1 : tensor<128x64xf32> -> tensor<128x1xf32>
    %la = tile.binary mul %l, %a : tensor<128x1xf32>
    %nl = tile.binary add %la, %ps : tensor<128x1xf32>
    %ab = tile.broadcast %a : tensor<128x1xf32> -> tensor<128x64xf32>
    %oa = tile.binary mul %o, %ab : tensor<128x64xf32>
    %v4 = tile.load %V[%b, %h, %j, %c0] : !tile.tensor<4, bf16> -> tensor<1x1x64x64xbf16>
    %v = tile.reshape %v4 : tensor<1x1x64x64xbf16> -> tensor<64x64xbf16>
    %pf = tile.fill %p, %none : tensor<128x64xf32>, f32
    %pc = tile.cast %pf : tensor<128x64xf32> -> tensor<128x64xbf16>
    %no = tile.mma exact %pc, %v, %oa : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    scf.yield %no, %nm, %nl : tensor<128x64xf32>, tensor<128x1xf32>, tensor<128x1xf32>
  }
  %lb = tile.broadcast %r#2 : tensor<128x1xf32> -> tensor<128x64xf32>
  %of = tile.binary div %r#0, %lb : tensor<128x64xf32>
  %oc = tile.cast %of : tensor<128x64xf32> -> tensor<128x64xbf16>
  %o4 = tile.reshape %oc : tensor<128x64xbf16> -> tensor<1x1x128x64xbf16>
  tile.store %o4, %O[%b, %h, %i, %c0] : tensor<1x1x128x64xbf16>, !tile.tensor<4, bf16>
  %lg = tile.unary log %r#2 : tensor<128x1xf32> -> tensor<128x1xf32>
  %ls = tile.binary add %lg, %r#1 : tensor<128x1xf32>
  %l3 = tile.reshape %ls : tensor<128x1xf32> -> tensor<1x1x128xf32>
  tile.store %l3, %L[%b, %h, %i] : tensor<1x1x128xf32>, !tile.tensor<3, f32>
  return
}
