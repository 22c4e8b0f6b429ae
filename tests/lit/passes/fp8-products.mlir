// SPDX-License-Identifier: Apache-2.0
// Two products of fp8 with work of threads between them: weights stay in registers, sums are short, and threads add them behind the
// wait that the next work needs anyway.
// RUN: sectile-opt %s --sectile-lower | FileCheck %s

!E = !tile.tensor<2, f8E4M3FN>
!F = !tile.tensor<2, f32>

// CHECK-LABEL: func.func @two
// CHECK: consumer
// CHECK-NOT: tgpu.copy
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[P:.*]] = %{{.*}}, %[[SUM:.*]] = %{{.*}})
// CHECK: %[[S:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k32_f32e4m3e4m3">
// Weights go from the accumulators of one product to the first operand of the other by shuffles.
// CHECK: %[[A:.*]] = tgpu.convert_layout %[[P]] : tensor<128x64xf8E4M3FN
// CHECK: %[[SHORT:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k32_f32e4m3e4m3"> %[[A]],
// CHECK: %[[READY:.*]] = tgpu.wgmma_wait 1 for %[[S]]
// CHECK: tile.unary exp2 %[[READY]]
// CHECK: %[[DONE:.*]]:2 = tgpu.wgmma_wait 0 for %[[SHORT]], 
// CHECK: %[[NEXT:.*]] = tile.binary add %[[SUM]], %[[DONE]]#0
// CHECK: tile.binary mul %[[NEXT]],
// CHECK: scf.yield
func.func @two(%Q: !E {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %K: !E {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %V: !E {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %O: !F {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %O [128, 64] : !F -> index, index
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %keys = tile.dim %K, 0 : !E
  %zero = tile.constant dense<0.0> : tensor<128x64xf32>
  %half = tile.constant dense<0.5> : tensor<128x64xf32>
  %q = tile.load %Q[%m, %z] : !E -> tensor<128x64xf8E4M3FN>
  %r = scf.for %j = %z to %keys step %step iter_args(%o = %zero) -> tensor<128x64xf32> {
    %k = tile.load %K[%j, %z] : !E -> tensor<64x64xf8E4M3FN>
    %kt = tile.permute %k [1, 0] : tensor<64x64xf8E4M3FN> -> tensor<64x64xf8E4M3FN>
    %s = tile.mma exact %q, %kt, %zero : tensor<128x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<128x64xf32>
    %e = tile.unary exp2 %s : tensor<128x64xf32> -> tensor<128x64xf32>
    %p = tile.cast %e : tensor<128x64xf32> -> tensor<128x64xf8E4M3FN>
    %less = tile.binary mul %o, %half : tensor<128x64xf32>
    %v = tile.load %V[%n, %j] : !E -> tensor<64x64xf8E4M3FN>
    %vt = tile.permute %v [1, 0] : tensor<64x64xf8E4M3FN> -> tensor<64x64xf8E4M3FN>
    %next = tile.mma exact %p, %vt, %less : tensor<128x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  tile.store %r, %O[%m, %n] : tensor<128x64xf32>, !F
  return
}
