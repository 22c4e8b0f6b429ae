// SPDX-License-Identifier: Apache-2.0
// A first operand that a loop does not change is read into registers once, where they suffice; its buffer is free behind that.
// RUN: sectile-opt %s --sectile-resolve-tails --sectile-select-mma --sectile-stage-operands --sectile-keep-operands | FileCheck %s
// RUN: sectile-opt %s --sectile-resolve-tails --sectile-select-mma --sectile-stage-operands --sectile-keep-operands=keep=1 | FileCheck %s --check-prefix=NEVER
// RUN: sectile-opt %s --sectile-lower | FileCheck %s --check-prefix=LOWER

!A = !tile.tensor<2, bf16>

// CHECK-LABEL: func.func @fixed
// CHECK: %[[X:.*]] = tgpu.stage_load
// CHECK-NEXT: %[[T:.*]] = tgpu.copy_out %[[X]] {{.*}} -> tensor<2x128x64xbf16>
// CHECK-NEXT: %[[P:.*]] = tile.permute %[[T]] [1, 0, 2]
// CHECK-NEXT: %[[V:.*]] = tile.reshape %[[P]] : tensor<128x2x64xbf16> -> tensor<128x128xbf16>
// CHECK: scf.for
// CHECK: tgpu.wgmma {{.*}} %[[V]], %
// CHECK-NOT: %[[X]]
// CHECK: return
// NEVER-LABEL: func.func @fixed
// NEVER-NOT: tgpu.copy_out
// NEVER: func.func @wide

// In the consumers: wait, read, release, and then the loop.
// LOWER-LABEL: func.func @fixed
// LOWER: consumer
// LOWER: %[[Q:.*]] = tgpu.pipe_wait
// LOWER-NEXT: tgpu.copy_out %[[Q]]
// LOWER-NEXT: tgpu.fence_async
// LOWER-NEXT: tgpu.pipe_release
// LOWER: scf.for
// LOWER: tgpu.wgmma #tgpu.atom<{{.*}}> %{{.*}}, %{{.*}}, %{{.*}} : tensor<128x128xbf16
func.func @fixed(%X: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                 %W: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                 %U: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                 %Y: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m = tile.grid %Y [128] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %zero = tile.constant 0.0 : bf16
  %N = tile.dim %W, 1 : !A
  %x0 = tile.load %X[%m, %z] : !A -> tensor<128x128xbf16>
  %x = tile.fill %x0, %zero : tensor<128x128xbf16>, bf16
  %init = tile.constant dense<0.0> : tensor<128x64xf32>
  %none = tile.constant dense<0.0> : tensor<128x64xf32>
  %r = scf.for %k = %z to %N step %s iter_args(%acc = %init) -> tensor<128x64xf32> {
    %w0 = tile.load %W[%z, %k] : !A -> tensor<128x64xbf16>
    %w = tile.fill %w0, %zero : tensor<128x64xbf16>, bf16
    %h = tile.mma exact %x, %w, %none : tensor<128x128xbf16>, tensor<128x64xbf16>, tensor<128x64xf32>
    %g = tile.binary mul %h, %h : tensor<128x64xf32>
    %c = tile.cast %g : tensor<128x64xf32> -> tensor<128x64xbf16>
    %u0 = tile.load %U[%k, %z] : !A -> tensor<64x64xbf16>
    %u = tile.fill %u0, %zero : tensor<64x64xbf16>, bf16
    %next = tile.mma exact %c, %u, %acc : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  %o = tile.cast %r : tensor<128x64xf32> -> tensor<128x64xbf16>
  tile.store %o, %Y[%m, %z] : tensor<128x64xbf16>, !A
  return
}

// Sums of 128 x 256 leave no room for it, and what the loop changes is not kept.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: tgpu.copy_out
// CHECK: return
func.func @wide(%X: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                %W: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                %Y: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %Y [128, 256] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %zero = tile.constant 0.0 : bf16
  %K = tile.dim %X, 1 : !A
  %init = tile.constant dense<0.0> : tensor<128x256xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<128x256xf32> {
    %x0 = tile.load %X[%m, %k] : !A -> tensor<128x64xbf16>
    %x = tile.fill %x0, %zero : tensor<128x64xbf16>, bf16
    %w0 = tile.load %W[%k, %n] : !A -> tensor<64x256xbf16>
    %w = tile.fill %w0, %zero : tensor<64x256xbf16>, bf16
    %next = tile.mma exact %x, %w, %acc : tensor<128x64xbf16>, tensor<64x256xbf16>, tensor<128x256xf32>
    scf.yield %next : tensor<128x256xf32>
  }
  %o = tile.cast %r : tensor<128x256xf32> -> tensor<128x256xbf16>
  tile.store %o, %Y[%m, %n] : tensor<128x256xbf16>, !A
  return
}
