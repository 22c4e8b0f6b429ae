// SPDX-License-Identifier: Apache-2.0
// Products on warpgroups, all the way: what goes by the TMA unit, what the launch is asked to copy, which loops keep products
// under way, in which order programs come.
// RUN: sectile-opt %s --sectile-lower | FileCheck %s

!A = !tile.tensor<2, bf16>
!Z = !tile.tensor<3, bf16>
!I = !tile.tensor<4, bf16>

// A batch: what exists along the batch moves the boxes behind the tensor or not, and the sums are stored in boxes of three axes.
// CHECK-LABEL: func.func @batched
// CHECK-NOT: tgpu.global_load
// CHECK: %[[FAR:.*]] = tile.constant 2147483136 : index
// CHECK: tile.select %{{.*}}, %{{.*}}, %[[FAR]] : i1, index
// CHECK: tgpu.tma_load %{{.*}} map(#tgpu.map<order = [2, 1, 0], box = [64, 128, 1], swizzle = 128, limits = [{{.*}}]>)
// CHECK-NOT: tgpu.global_store
// CHECK: tgpu.bulk_store %{{.*}} map(#tgpu.map<order = [2, 1, 0], box = [64, 16, 1], swizzle = 128, limits = [{{.*}}]>) through %{{.*}} {rows = array<i64: 1, 128>}
func.func @batched(%A: !Z {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16, 16>, tile.stride_div = array<i64: 16, 16, 1>, tile.unit_stride = 2, tile.small},
                   %B: !Z {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16, 16>, tile.stride_div = array<i64: 16, 16, 1>, tile.unit_stride = 2, tile.small},
                   %C: !Z {tile.align = 16, tile.dim_div = array<i64: 16, 16, 16>, tile.stride_div = array<i64: 16, 16, 1>, tile.unit_stride = 2, tile.small})
    attributes {tile.kernel} {
  %b, %m, %n = tile.grid %C [1, 128, 128] : !Z -> index, index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 2 : !Z
  %init = tile.constant dense<0.0> : tensor<128x128xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<128x128xf32> {
    %a3 = tile.load %A[%b, %m, %k] : !Z -> tensor<1x128x64xbf16>
    %a = tile.reshape %a3 : tensor<1x128x64xbf16> -> tensor<128x64xbf16>
    %b3 = tile.load %B[%b, %k, %n] : !Z -> tensor<1x64x128xbf16>
    %bb = tile.reshape %b3 : tensor<1x64x128xbf16> -> tensor<64x128xbf16>
    %next = tile.mma exact %a, %bb, %acc : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %h = tile.cast %r : tensor<128x128xf32> -> tensor<128x128xbf16>
  %c = tile.reshape %h : tensor<128x128xbf16> -> tensor<1x128x128xbf16>
  tile.store %c, %C[%b, %m, %n] : tensor<1x128x128xbf16>, !Z
  return
}

// Sums whose rows are a window of an image: 16 rows are one line of it.
// CHECK-LABEL: func.func @window
// CHECK: tgpu.bulk_store %{{.*}} map(#tgpu.map<order = [3, 2, 1, 0], box = [64, 16, 1, 1], swizzle = 128, limits = [{{.*}}]>) through %{{.*}} {rows = array<i64: 1, 8, 16>}
func.func @window(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %Y: !I {tile.align = 16, tile.dim_div = array<i64: 16, 16, 16, 16>, tile.stride_div = array<i64: 16, 16, 16, 1>, tile.unit_stride = 3, tile.small})
    attributes {tile.kernel} {
  %b, %y, %x, %o = tile.grid %Y [1, 8, 16, 64] : !I -> index, index, index, index
  %z = tile.constant 0 : index
  %zero = tile.constant 0.0 : bf16
  %la = tile.load %A[%y, %z] : !A -> tensor<128x64xbf16>
  %a = tile.fill %la, %zero : tensor<128x64xbf16>, bf16
  %lw = tile.load %B[%z, %o] : !A -> tensor<64x64xbf16>
  %w = tile.fill %lw, %zero : tensor<64x64xbf16>, bf16
  %init = tile.constant dense<0.0> : tensor<128x64xf32>
  %r = tile.mma exact %a, %w, %init : tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>
  %h = tile.cast %r : tensor<128x64xf32> -> tensor<128x64xbf16>
  %c = tile.reshape %h : tensor<128x64xbf16> -> tensor<1x8x16x64xbf16>
  tile.store %c, %Y[%b, %y, %x, %o] : tensor<1x8x16x64xbf16>, !I
  return
}

// Rows that start at odd places: the launch may copy A along K, of which a program reads 128 rows and all of K.
// CHECK-LABEL: func.func @odd
// CHECK-SAME: tgpu.repack = array<i64: 1, 128, 0>
// CHECK: tgpu.wgmma
func.func @odd(%A: !A {tile.readonly, tile.align = 2, tile.stride_div = array<i64: 1, 1>, tile.unit_stride = 1, tile.small},
               %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %C [128, 128] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  %init = tile.constant dense<0.0> : tensor<128x128xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<128x128xf32> {
    %a = tile.load %A[%m, %k] : !A -> tensor<128x64xbf16>
    %b = tile.load %B[%k, %n] : !A -> tensor<64x128xbf16>
    %next = tile.mma exact %a, %b, %acc : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %h = tile.cast %r : tensor<128x128xf32> -> tensor<128x128xbf16>
  tile.store %h, %C[%m, %n] : tensor<128x128xbf16>, !A
  return
}

// tf32: the TMA unit rounds. B lies across, which the instruction does not take: a copy along K, and products of warps as it is.
// CHECK-LABEL: func.func @tf32
// CHECK: tgpu.tma_load {{.*}}tf32 = true
// CHECK: tgpu.wgmma #tgpu.atom<"sm90_m64n64k8_f32tf32tf32">
!F = !tile.tensor<2, f32>
func.func @tf32(%A: !F {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                %B: !F {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                %C: !F {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %a = tile.load %A[%z, %z] : !F -> tensor<64x32xf32>
  %bt = tile.load %B[%z, %z] : !F -> tensor<64x32xf32>
  %b = tile.permute %bt [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = tile.mma tf32 %a, %b, %init : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>
  tile.store %r, %C[%z, %z] : tensor<64x64xf32>, !F
  return
}
// CHECK-LABEL: func.func @tf32_across
// CHECK-SAME: tgpu.repack = array<i64: 0, 32, 64>
// CHECK: tgpu.mma_sync #tgpu.atom<"sm80_m16n8k8_f32tf32tf32f32_tn">
func.func @tf32_across(%A: !F {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                       %B: !F {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                       %C: !F {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %a = tile.load %A[%z, %z] : !F -> tensor<64x32xf32>
  %b = tile.load %B[%z, %z] : !F -> tensor<32x64xf32>
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = tile.mma tf32 %a, %b, %init : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>
  tile.store %r, %C[%z, %z] : tensor<64x64xf32>, !F
  return
}

// Loads and stores of one loop: by TMA where arguments are promised to share no memory and each trip writes elements of its own.
// CHECK-LABEL: func.func @strips
// CHECK-SAME: tgpu.assumes_apart
// CHECK: tgpu.tma_load
// CHECK: tgpu.bulk_store
func.func @strips(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel, tile.apart} {
  %m = tile.grid %A [64] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %N = tile.dim %C, 1 : !A
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !A -> tensor<64x64xbf16>
  scf.for %n = %z to %N step %s {
    %b = tile.load %B[%z, %n] : !A -> tensor<64x64xbf16>
    %r = tile.mma exact %a, %b, %init : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %h = tile.cast %r : tensor<64x64xf32> -> tensor<64x64xbf16>
    tile.store %h, %C[%m, %n] : tensor<64x64xbf16>, !A
  }
  return
}
// The same without the promise: B may be what C writes.
// CHECK-LABEL: func.func @strips_shared
// CHECK-NOT: tgpu.bulk_store
// CHECK: tgpu.global_load
// CHECK: tgpu.global_store
func.func @strips_shared(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                         %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                         %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m = tile.grid %A [64] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %N = tile.dim %C, 1 : !A
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !A -> tensor<64x64xbf16>
  scf.for %n = %z to %N step %s {
    %b = tile.load %B[%z, %n] : !A -> tensor<64x64xbf16>
    %r = tile.mma exact %a, %b, %init : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %h = tile.cast %r : tensor<64x64xf32> -> tensor<64x64xbf16>
    tile.store %h, %C[%m, %n] : tensor<64x64xbf16>, !A
  }
  return
}
// Trips that write what others wrote: by threads.
// CHECK-LABEL: func.func @overlapping_strips
// CHECK-NOT: tgpu.bulk_store
// CHECK: tgpu.global_store
func.func @overlapping_strips(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel, tile.apart} {
  %m = tile.grid %A [64] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 32 : index
  %N = tile.dim %C, 1 : !A
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !A -> tensor<64x64xbf16>
  scf.for %n = %z to %N step %s {
    %b = tile.load %B[%z, %n] : !A -> tensor<64x64xbf16>
    %r = tile.mma exact %a, %b, %init : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %h = tile.cast %r : tensor<64x64xf32> -> tensor<64x64xbf16>
    tile.store %h, %C[%m, %n] : tensor<64x64xbf16>, !A
  }
  return
}

// A number that all programs read is read once, and longer programs come first.
// CHECK-LABEL: func.func @guarded
// CHECK: tgpu.programs
// CHECK: tgpu.global_gather %{{.*}} -> i32
// CHECK: scf.for
// CHECK: tile.binary sub
// CHECK: tgpu.program
// CHECK: scf.for
// CHECK: scf.if
// CHECK: tgpu.wgmma
// CHECK: tgpu.wgmma_wait 0
func.func @guarded(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                   %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                   %L: !tile.tensor<1, i32> {tile.readonly},
                   %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel, tile.apart} {
  %m, %n = tile.grid %C [64, 64] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %least = tile.gather %L[%z] : !tile.tensor<1, i32>, (index) -> i32
  %l = tile.cast %least : i32 -> index
  %end = tile.binary add %m, %s : index
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %k = %z to %end step %s iter_args(%acc = %init) -> tensor<64x64xf32> {
    %takes = tile.compare lt %l, %k : index -> i1
    %next = scf.if %takes -> tensor<64x64xf32> {
      %a = tile.load %A[%m, %k] : !A -> tensor<64x64xbf16>
      %b = tile.load %B[%k, %n] : !A -> tensor<64x64xbf16>
      %more = tile.mma exact %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %more : tensor<64x64xf32>
    } else {
      scf.yield %acc : tensor<64x64xf32>
    }
    scf.yield %next : tensor<64x64xf32>
  }
  %h = tile.cast %r : tensor<64x64xf32> -> tensor<64x64xbf16>
  tile.store %h, %C[%m, %n] : tensor<64x64xbf16>, !A
  return
}

// Rows that may end inside 16 bytes, which the unit would write whole: by threads, in whole rows.
// CHECK-LABEL: func.func @ragged
// CHECK-NOT: tgpu.global_store
// CHECK: tgpu.bulk_store {{.*}} {tgpu.by_threads}
func.func @ragged(%A: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %B: !A {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
                  %C: !A {tile.align = 16, tile.dim_div = array<i64: 16, 4>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !A -> index, index
  %z = tile.constant 0 : index
  %a = tile.load %A[%m, %z] : !A -> tensor<64x64xbf16>
  %b = tile.load %B[%z, %n] : !A -> tensor<64x64xbf16>
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = tile.mma exact %a, %b, %init : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
  %h = tile.cast %r : tensor<64x64xf32> -> tensor<64x64xbf16>
  tile.store %h, %C[%m, %n] : tensor<64x64xbf16>, !A
  return
}

// Sums of fp8 products are f32, of which asynchronous products keep few bits: they begin at zero in each trip, and threads add.
// CHECK-LABEL: func.func @fp8
// CHECK-DAG: %[[ZERO:.*]] = tile.constant dense<0.000000e+00> : tensor<64x64xf32
// CHECK: scf.for {{.*}} iter_args(%[[SUM:.*]] = %
// CHECK: %[[SHORT:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k32_f32e4m3e4m3"> {{.*}}, %[[ZERO]]
// CHECK: %[[DONE:.*]] = tgpu.wgmma_wait 0 for %[[SHORT]]
// CHECK: %[[NEXT:.*]] = tile.binary add %[[SUM]], %[[DONE]]
// CHECK: scf.yield %[[NEXT]]
!E = !tile.tensor<2, f8E4M3FN>
func.func @fp8(%A: !E {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %B: !E {tile.readonly, tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small},
               %C: !F {tile.align = 16, tile.dim_div = array<i64: 16, 16>, tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1, tile.small})
    attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !F -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 128 : index
  %K = tile.dim %A, 1 : !E
  %init = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %k = %z to %K step %s iter_args(%acc = %init) -> tensor<64x64xf32> {
    %a = tile.load %A[%m, %k] : !E -> tensor<64x128xf8E4M3FN>
    %bt = tile.load %B[%n, %k] : !E -> tensor<64x128xf8E4M3FN>
    %b = tile.permute %bt [1, 0] : tensor<64x128xf8E4M3FN> -> tensor<128x64xf8E4M3FN>
    %next = tile.mma exact %a, %b, %acc : tensor<64x128xf8E4M3FN>, tensor<128x64xf8E4M3FN>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store %r, %C[%m, %n] : tensor<64x64xf32>, !F
  return
}
