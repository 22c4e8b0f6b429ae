// SPDX-License-Identifier: Apache-2.0
// What is proved right stays as it is.
// RUN: sectile-opt %s --sectile-check-pipeline | FileCheck %s

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
!q = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>

// What a matmul becomes: any number of programs and trips, the products of one trip under way.
// CHECK-LABEL: func.func @matmul
// CHECK: tgpu.roles
func.func @matmul(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 16384 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.tma_load %B[%j, %i] map(#map) to %pipe[1] : !t, !p
        tgpu.pipe_commit %pipe : !p
      }
    }
  } registers 0 consumer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 1
        tgpu.pipe_release %pipe keep 1 : !p
        scf.yield %d : tensor<64x64xf32, #l>
      }
      %ready = tgpu.wgmma_wait 0 for %sum : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 0 : !p
      %c = tile.cast %ready : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
      tgpu.global_store %c, %A[%i, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
    }
  }
  return
}

// Steps that one branch of both roles guards.
// CHECK-LABEL: func.func @guarded
func.func @guarded(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        %t = tile.compare lt %i, %j : index -> i1
        scf.if %t {
        tgpu.pipe_acquire %pipe bytes 16384 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.tma_load %B[%j, %i] map(#map) to %pipe[1] : !t, !p
        tgpu.pipe_commit %pipe : !p
        }
      }
    }
  } registers 0 consumer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %t = tile.compare lt %i, %j : index -> i1
        %s = scf.if %t -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        %e = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
        tgpu.pipe_release %pipe keep 0 : !p
        scf.yield %e : tensor<64x64xf32, #l>
        } else {
        scf.yield %acc : tensor<64x64xf32, #l>
        }
        scf.yield %s : tensor<64x64xf32, #l>
      }
      %c = tile.cast %sum : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
      tgpu.global_store %c, %A[%i, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
    }
  }
  return
}

// Loops that carry the same numbers in other places; the result of one is the bound of the next.
// CHECK-LABEL: func.func @carried
func.func @carried(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %end:2 = scf.while (%j = %z, %m = %k) : (index, index) -> (index, index) {
      %K = tile.dim %A, 1 : !t
      %more = tile.compare lt %j, %K : index -> i1
      scf.condition(%more) %j, %m : index, index
    } do {
    ^bb0(%j: index, %m: index):
      %next = tile.binary add %j, %m : index
      tgpu.pipe_acquire %pipe bytes 16384 : !p
      tgpu.tma_load %A[%z, %j] map(#map) to %pipe[0] : !t, !p
      tgpu.tma_load %B[%j, %z] map(#map) to %pipe[1] : !t, !p
      tgpu.pipe_commit %pipe : !p
      scf.yield %next, %m : index, index
    }
    scf.for %j = %z to %end#0 step %k {
      tgpu.pipe_acquire %pipe bytes 16384 : !p
      tgpu.tma_load %A[%z, %j] map(#map) to %pipe[0] : !t, !p
      tgpu.tma_load %B[%j, %z] map(#map) to %pipe[1] : !t, !p
      tgpu.pipe_commit %pipe : !p
    }
  } registers 0 consumer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
    %end:3 = scf.while (%m = %k, %acc = %zero, %j = %z) : (index, tensor<64x64xf32, #l>, index) -> (index, tensor<64x64xf32, #l>, index) {
      %K = tile.dim %A, 1 : !t
      %more = tile.compare lt %j, %K : index -> i1
      scf.condition(%more) %m, %acc, %j : index, tensor<64x64xf32, #l>, index
    } do {
    ^bb0(%m: index, %acc: tensor<64x64xf32, #l>, %j: index):
      %next = tile.binary add %j, %m : index
      %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
      %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
      %e = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 0 : !p
      scf.yield %m, %e, %next : index, tensor<64x64xf32, #l>, index
    }
    // The products of two trips take turns: this trip's starts before the last trip's result is used.
    %last, %all = scf.for %j = %z to %end#2 step %k iter_args(%before = %zero, %sum = %end#1) -> (tensor<64x64xf32, #l>, tensor<64x64xf32, #l>) {
      %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
      %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %zero : !s, !s, tensor<64x64xf32, #l>
      %ready = tgpu.wgmma_wait 1 for %before : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 1 : !p
      %more = tile.binary add %sum, %ready : tensor<64x64xf32, #l>
      scf.yield %d, %more : tensor<64x64xf32, #l>, tensor<64x64xf32, #l>
    }
    %rest = tgpu.wgmma_wait 0 for %last : tensor<64x64xf32, #l>
    tgpu.pipe_release %pipe keep 0 : !p
    %total = tile.binary add %all, %rest : tensor<64x64xf32, #l>
    %c = tile.cast %total : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
    tgpu.global_store %c, %C[%z, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
  }
  return
}

// A slot that stays while others come and go.
// CHECK-LABEL: func.func @two
func.func @two(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 99328, producers = 4>} {
  %q = tgpu.pipe_create full 1 empty 4 at 65536, 98368 : !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 98304 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    tgpu.pipe_acquire %q bytes 8192 : !q
    tgpu.tma_load %C[%z, %z] map(#map) to %q[0] : !t, !q
    tgpu.pipe_commit %q : !q
    scf.for %j = %z to %K step %k {
      tgpu.pipe_acquire %pipe bytes 16384 : !p
      tgpu.tma_load %A[%z, %j] map(#map) to %pipe[0] : !t, !p
      tgpu.tma_load %B[%j, %z] map(#map) to %pipe[1] : !t, !p
      tgpu.pipe_commit %pipe : !p
    }
  } registers 0 consumer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
    %c = tgpu.pipe_wait %q : !q -> !s
    %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
      %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
      %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
      %e = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %c mn, %d : !s, !s, tensor<64x64xf32, #l>
      tgpu.wgmma_wait 2
      tgpu.pipe_release %pipe keep 1 : !p
      scf.yield %e : tensor<64x64xf32, #l>
    }
    %ready = tgpu.wgmma_wait 0 for %sum : tensor<64x64xf32, #l>
    tgpu.pipe_release %pipe keep 0 : !p
    tgpu.pipe_release %q keep 0 : !q
  }
  return
}

// Products without pipes: what they read is overwritten in the next trip.
// CHECK-LABEL: func.func @alone
func.func @alone(%v: tensor<1x64x64xbf16>) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 8192>} {
  %z = tile.constant 0 : index
  %k = tile.constant 64 : index
  %own = tgpu.buffer_alloc at 0 : !s
  %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
  %sum = scf.for %j = %z to %k step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
    tgpu.barrier
    tgpu.copy %v, %own : tensor<1x64x64xbf16>, !s
    tgpu.fence_async
    tgpu.barrier
    %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %acc : !s, !s, tensor<64x64xf32, #l>
    %e = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
    scf.yield %e : tensor<64x64xf32, #l>
  }
  return
}
