// SPDX-License-Identifier: Apache-2.0
// Products of two iterations at a time: the first ones of an iteration, then the last ones of the iteration before.
// RUN: sectile-opt %s --sectile-select-mma --sectile-overlap-products -cse | FileCheck %s
// RUN: sectile-opt %s --sectile-select-mma --sectile-overlap-products=overlap=1 | FileCheck %s --check-prefix=NEVER
// NEVER-NOT: scf.if

!T = !tile.tensor<2, bf16>

// CHECK-LABEL: func.func @two
// CHECK: %[[RUNS:.*]] = tile.compare lt %[[LB:.*]], %[[UB:.*]] : index -> i1
// CHECK: scf.if %[[RUNS]]
// The first iteration, up to its last product.
// CHECK: %[[K0:.*]] = tgpu.global_load %{{.*}}[%[[LB]],
// CHECK: tile.mma {{.*}}%{{.*}}, %{{.*}}
// CHECK: tile.unary exp
// CHECK: %[[P0:.*]] = tile.cast
// CHECK-NOT: tile.mma
// CHECK: %[[SECOND:.*]] = tile.binary add %[[LB]], %[[STEP:.*]] : index
// CHECK: scf.for %[[I:.*]] = %[[SECOND]] to %[[UB]] step %[[STEP]] iter_args(%[[BEFORE:.*]] = %[[LB]], %[[P:.*]] = %[[P0]], %[[SUM:.*]] = %{{.*}}, %[[TOTAL:.*]] = %{{.*}})
// CHECK: tgpu.global_load %{{.*}}[%[[I]],
// CHECK: %[[S:.*]] = tile.mma
// CHECK: %[[V:.*]] = tgpu.global_load %{{.*}}[%[[BEFORE]],
// CHECK: tile.mma exact %[[P]], %[[V]], %[[SUM]]
// CHECK: tile.unary exp %[[S]]
// CHECK: scf.yield %[[I]],
// The last product of the last iteration.
// CHECK: %[[VLAST:.*]] = tgpu.global_load
// CHECK: tile.mma {{.*}} %{{.*}}, %[[VLAST]],
// CHECK: scf.yield
// CHECK: else
// CHECK: scf.yield
func.func @two(%Q: !T, %K: !T, %V: !T, %n: index) -> (tensor<128x64xf32>, tensor<128x1xf32>) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %o0 = tile.constant dense<0.0> : tensor<128x64xf32>
  %l0 = tile.constant dense<0.0> : tensor<128x1xf32>
  %two = tile.constant dense<2.0> : tensor<128x64xf32>
  %q = tgpu.global_load %Q[%z, %z] axes [] lo[] hi[] pad 0.0 : bf16 : !T -> tensor<128x64xbf16>
  %r:2 = scf.for %j = %z to %n step %step iter_args(%o = %o0, %l = %l0) -> (tensor<128x64xf32>, tensor<128x1xf32>) {
    %k = tgpu.global_load %K[%j, %z] axes [] lo[] hi[] pad 0.0 : bf16 : !T -> tensor<64x64xbf16>
    %kt = tile.permute %k [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.mma exact %q, %kt, %o0 : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    %e = tile.unary exp %s : tensor<128x64xf32> -> tensor<128x64xf32>
    %sum = tile.reduce sum %e, 1 : tensor<128x64xf32> -> tensor<128x1xf32>
    %l1 = tile.binary add %l, %sum : tensor<128x1xf32>
    %half = tile.binary mul %o, %two : tensor<128x64xf32>
    %p = tile.cast %e : tensor<128x64xf32> -> tensor<128x64xbf16>
    %v = tgpu.global_load %V[%j, %z] axes [] lo[] hi[] pad 0.0 : bf16 : !T -> tensor<64x64xbf16>
    %o1 = tile.mma exact %p, %v, %half : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    scf.yield %o1, %l1 : tensor<128x64xf32>, tensor<128x1xf32>
  }
  return %r#0, %r#1 : tensor<128x64xf32>, tensor<128x1xf32>
}

// The first product needs what the last one gave: nothing to overlap.
// CHECK-LABEL: func.func @chain
// CHECK-NOT: scf.if
// CHECK: return
func.func @chain(%Q: !T, %V: !T, %n: index) -> tensor<128x64xf32> attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %o0 = tile.constant dense<0.0> : tensor<128x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %o0) -> tensor<128x64xf32> {
    %h = tile.cast %o : tensor<128x64xf32> -> tensor<128x64xbf16>
    %k = tgpu.global_load %Q[%j, %z] axes [] lo[] hi[] pad 0.0 : bf16 : !T -> tensor<64x64xbf16>
    %s = tile.mma exact %h, %k, %o0 : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    %p = tile.cast %s : tensor<128x64xf32> -> tensor<128x64xbf16>
    %v = tgpu.global_load %V[%j, %z] axes [] lo[] hi[] pad 0.0 : bf16 : !T -> tensor<64x64xbf16>
    %o1 = tile.mma exact %p, %v, %o0 : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    scf.yield %o1 : tensor<128x64xf32>
  }
  return %r : tensor<128x64xf32>
}
