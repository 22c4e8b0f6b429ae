// SPDX-License-Identifier: Apache-2.0
// Faults that only one number of trips has: none, one, three, more than slots.
// RUN: sectile-opt %s --sectile-check-pipeline --split-input-file --verify-diagnostics -o /dev/null

// The slot from before the loop is released in the loop alone.
#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @no_trip(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    tgpu.pipe_acquire %pipe bytes 16384 : !p
    tgpu.tma_load %A[%z, %z] map(#map) to %pipe[0] : !t, !p
    tgpu.tma_load %B[%z, %z] map(#map) to %pipe[1] : !t, !p
    tgpu.pipe_commit %pipe : !p
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
    // expected-error @+1 {{the consumers end with 1 slots of pipe 0 not released [check_pipeline_c9]; release each slot that was waited for}}
    %a0, %b0 = tgpu.pipe_wait %pipe : !p -> !s, !s
    %d0 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a0, %b0 mn, %zero : !s, !s, tensor<64x64xf32, #l>
    %sum = scf.for %j = %z to %K step %k iter_args(%acc = %d0) -> (tensor<64x64xf32, #l>) {
      %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
      %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
      %e = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 1 : !p
      tgpu.pipe_release %pipe keep 0 : !p
      scf.yield %e : tensor<64x64xf32, #l>
    }
  }
  return
}

// -----

// After one trip and no other number of them, the result is that of the product under way.
#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @one_trip(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    tgpu.pipe_acquire %pipe bytes 16384 : !p
    tgpu.tma_load %A[%z, %z] map(#map) to %pipe[0] : !t, !p
    tgpu.tma_load %B[%z, %z] map(#map) to %pipe[1] : !t, !p
    tgpu.pipe_commit %pipe : !p
  } registers 0 consumer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
    %a0, %b0 = tgpu.pipe_wait %pipe : !p -> !s, !s
    %d0 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a0, %b0 mn, %zero : !s, !s, tensor<64x64xf32, #l>
    %r:2 = scf.for %j = %z to %K step %k iter_args(%x = %zero, %y1 = %d0) -> (tensor<64x64xf32, #l>, tensor<64x64xf32, #l>) {
      scf.yield %y1, %zero : tensor<64x64xf32, #l>, tensor<64x64xf32, #l>
    }
    // expected-error @+1 {{the result of a product is used while the product may be under way [check_pipeline_c12]; use what tgpu.wgmma_wait gives for it}}
    %c = tile.cast %r#0 : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
    %e = tgpu.wgmma_wait 0 for %d0 : tensor<64x64xf32, #l>
    tgpu.pipe_release %pipe keep 0 : !p
    tgpu.global_store %c, %C[%z, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
  }
  return
}

// -----

// The same after three trips.
#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @three_trips(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    tgpu.pipe_acquire %pipe bytes 16384 : !p
    tgpu.tma_load %A[%z, %z] map(#map) to %pipe[0] : !t, !p
    tgpu.tma_load %B[%z, %z] map(#map) to %pipe[1] : !t, !p
    tgpu.pipe_commit %pipe : !p
  } registers 0 consumer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
    %zero = tile.constant dense<0.0> : tensor<64x64xf32, #l>
    %a0, %b0 = tgpu.pipe_wait %pipe : !p -> !s, !s
    %d0 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a0, %b0 mn, %zero : !s, !s, tensor<64x64xf32, #l>
    %r:4 = scf.for %j = %z to %K step %k iter_args(%x = %zero, %y1 = %zero, %y2 = %zero, %y3 = %d0) -> (tensor<64x64xf32, #l>, tensor<64x64xf32, #l>, tensor<64x64xf32, #l>, tensor<64x64xf32, #l>) {
      scf.yield %y1, %y2, %y3, %zero : tensor<64x64xf32, #l>, tensor<64x64xf32, #l>, tensor<64x64xf32, #l>, tensor<64x64xf32, #l>
    }
    // expected-error @+1 {{the result of a product is used while the product may be under way [check_pipeline_c12]; use what tgpu.wgmma_wait gives for it}}
    %c = tile.cast %r#0 : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
    %e = tgpu.wgmma_wait 0 for %d0 : tensor<64x64xf32, #l>
    tgpu.pipe_release %pipe keep 0 : !p
    tgpu.global_store %c, %C[%z, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
  }
  return
}

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @more_trips_than_slots(%A: !t, %B: !t, %C: !t) attributes {tile.kernel, tgpu.target = "sm_90a",
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %z = tile.constant 0 : index
    %k = tile.constant 64 : index
    %K = tile.dim %A, 1 : !t
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
    // A slot more stays in each trip but the first; the fifth waits for one that nobody releases.
    %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
      // expected-error @+1 {{the consumers wait for a slot of pipe 0 while they hold 4 of its 4 slots, for ever [check_pipeline_c9]; release one first}}
      %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
      %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
      %e = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 4 : !p
      scf.yield %e : tensor<64x64xf32, #l>
    }
    tgpu.pipe_release %pipe keep 3 : !p
    tgpu.pipe_release %pipe keep 2 : !p
    tgpu.pipe_release %pipe keep 1 : !p
    tgpu.pipe_release %pipe keep 0 : !p
  }
  return
}
