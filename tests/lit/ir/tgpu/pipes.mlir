// SPDX-License-Identifier: Apache-2.0
// Roles, pipes, asynchronous products, persistent kernels: what is printed reads back as it was.
// RUN: sectile-opt %s | FileCheck %s
// RUN: sectile-opt %s | sectile-opt | FileCheck %s

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "min(dim(0,1),dim(1,0))"]>
#out = #tgpu.map<order = [1, 0], box = [64, 16], swizzle = 128, limits = ["inf", "inf"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>

// CHECK-LABEL: func.func @matmul
// CHECK-SAME: tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 99328, producers = 4>
func.func @matmul(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.persistent, tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 99328, producers = 4>} {
  // CHECK: %[[P:.*]] = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  // CHECK: tgpu.pipe_create full 1 empty 4 {free = 0 : i64} : !tgpu.pipe<4,
  %unplaced = tgpu.pipe_create full 1 empty 4 {free = 0 : i64} : !p
  // CHECK: tgpu.roles registers 24 producer {
  tgpu.roles registers 24 producer {
    // CHECK: %[[NUMBER:.*]], %[[COUNT:.*]] = tgpu.block_number
    %first, %step = tgpu.block_number
    // CHECK: tgpu.programs %{{.*}} [64, 64] : !tile.tensor<2, bf16>
    %programs = tgpu.programs %C [64, 64] : !t
    // CHECK: tgpu.program %[[NUMBER]] of %{{.*}} [64, 64] group 16 : !tile.tensor<2, bf16> -> index, index
    %m, %n = tgpu.program %first of %C [64, 64] group 16 : !t -> index, index
    // CHECK: tgpu.pipe_acquire %[[P]] bytes 16384 : !tgpu.pipe
    tgpu.pipe_acquire %pipe bytes 16384 : !p
    // CHECK: tgpu.tma_load %{{.*}}[%{{.*}}, %{{.*}}] map(#tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "min(dim(0,1),dim(1,0))"]>) to %[[P]][0] : !tile.tensor<2, bf16>, !tgpu.pipe
    tgpu.tma_load %A[%m, %n] map(#map) to %pipe[0] : !t, !p
    // CHECK: tgpu.async_load %{{.*}}[%{{.*}}, %{{.*}}] map(#tgpu.map<{{.*}}>) to %[[P]][1] by 16 : !tile.tensor<2, bf16>, !tgpu.pipe
    tgpu.async_load %B[%m, %n] map(#map) to %pipe[1] by 16 : !t, !p
    // CHECK: tgpu.async_arrive %[[P]] : !tgpu.pipe
    tgpu.async_arrive %pipe : !p
    // CHECK: tgpu.pipe_commit %[[P]] : !tgpu.pipe
    tgpu.pipe_commit %pipe : !p
  // CHECK: } registers 240 consumer {
  } registers 240 consumer {
    %z = tile.constant 0 : index
    %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
    %a16 = tile.constant dense<0.0> : tensor<64x64xbf16>
    // CHECK: %[[S:.*]]:2 = tgpu.pipe_wait %[[P]] : !tgpu.pipe<{{.*}}> -> !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
    %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
    // CHECK: %[[D:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %[[S]]#0, %[[S]]#1 mn, %{{.*}} : !tgpu.buffer
    %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %zero : !s, !s, tensor<64x64xf32, #l>
    // CHECK: %[[E:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %[[S]]#0 mn, %[[S]]#1, %[[D]] : !tgpu.buffer
    %e = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a mn, %b, %d : !s, !s, tensor<64x64xf32, #l>
    // CHECK: %[[F:.*]] = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %{{.*}}, %[[S]]#1, %[[E]] : tensor<64x64xbf16>, !tgpu.buffer
    %f = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a16, %b, %e : tensor<64x64xbf16>, !s, tensor<64x64xf32, #l>
    // CHECK: tgpu.wgmma_wait 2{{$}}
    tgpu.wgmma_wait 2
    // CHECK: tgpu.wgmma_wait 0 for %[[F]] : tensor<64x64xf32, #{{.*}}>
    %r = tgpu.wgmma_wait 0 for %f : tensor<64x64xf32, #l>
    // CHECK: tgpu.pipe_release %[[P]] keep 1 : !tgpu.pipe
    tgpu.pipe_release %pipe keep 1 : !p
    %c = tile.cast %r : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
    %own = tgpu.buffer_alloc at 67584 : !tgpu.buffer<[4, 2, 16, 64], bf16>
    // CHECK: tgpu.fence_async
    tgpu.fence_async
    // CHECK: tgpu.bulk_store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] map(#tgpu.map<order = [1, 0], box = [64, 16], swizzle = 128, limits = ["inf", "inf"]>) through %{{.*}} : tensor<64x64xbf16, #{{.*}}>, !tile.tensor<2, bf16>, !tgpu.buffer<[4, 2, 16, 64], bf16>
    tgpu.bulk_store %c, %C[%z, %z] map(#out) through %own : tensor<64x64xbf16, #l>, !t, !tgpu.buffer<[4, 2, 16, 64], bf16>
  }
  return
}

// CHECK-LABEL: func.func @staged
// CHECK-SAME: #tgpu.launch<warps = 4, shared_bytes = 0, cluster = 2, producers = 4>
func.func @staged(%A: !t, %i: index) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, cluster = 2, producers = 4>} {
  // CHECK: tgpu.stage_load %{{.*}}[%{{.*}}, %{{.*}}] map(#tgpu.map<{{.*}}>) : !tile.tensor<2, bf16> -> !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
  %b = tgpu.stage_load %A[%i, %i] map(#map) : !t -> !s
  // CHECK: tgpu.stage_load %{{.*}}[%{{.*}}, %{{.*}}] map(#tgpu.map<{{.*}}>) {copyBytes = 8 : i64} : !tile.tensor<2, bf16>
  %c = tgpu.stage_load %A[%i, %i] map(#map) {copyBytes = 8 : i64} : !t -> !s
  return
}
