// SPDX-License-Identifier: Apache-2.0
// A pipe that the TMA unit and threads fill together: right, then with one fault each.
// RUN: sectile-opt %s --sectile-check-pipeline --split-input-file --verify-diagnostics -o /dev/null

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @right(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @arrivals_of_one(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  // expected-error @+1 {{a slot of pipe 0 is full after 1 arrivals, and the producer makes 129 [check_pipeline_c1]; full must be 129}}
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @arrives_twice(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
        tgpu.async_arrive %pipe : !p
        // expected-error @+1 {{a slot of pipe 0 is full after 129 arrivals, and the producer makes 257 here [check_pipeline_c1]; full must be that number}}
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @arrives_at_nothing(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        // expected-error @+1 {{threads arrive at a slot of pipe 0 that is not acquired [check_pipeline_c4]; acquire it first}}
        tgpu.async_arrive %pipe : !p
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @copies_into_nothing(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        // expected-error @+1 {{a copy fills a slot of pipe 0 that is not acquired [check_pipeline_c4]; acquire it first}}
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @copied_twice(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        // expected-error @+1 {{buffer 1 of a slot of pipe 0 is filled twice [check_pipeline_c6]; one copy fills each buffer}}
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @nobody_copies(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_arrive %pipe : !p
        // expected-error @+1 {{buffer 1 of a slot of pipe 0 is not filled [check_pipeline_c6]; one copy fills each buffer}}
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @announces_copies(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
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
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
        // expected-error @+1 {{a slot of pipe 0 waits for 16384 bytes, its copies bring 8192 [check_pipeline_c5]; announce what the copies bring}}
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @arrives_too_early(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_arrive %pipe : !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        // expected-error @+1 {{a slot of pipe 0 is committed with copies of 128 threads that have no arrival behind them [check_pipeline_c16]; put tgpu.async_arrive behind the last copy}}
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
        tgpu.fence_async
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @no_fence(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        // expected-error @+1 {{a product reads a slot of pipe 0 that 128 threads filled, without a fence behind the wait for it [check_pipeline_c17]; put tgpu.fence_async there}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @fence_before_wait(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 129 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %K step %k {
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.async_load %B[%j, %i] map(#map) to %pipe[1] by 16 : !t, !p
        tgpu.async_arrive %pipe : !p
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
        tgpu.fence_async
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        // expected-error @+1 {{a product reads a slot of pipe 0 that 128 threads filled, without a fence behind the wait for it [check_pipeline_c17]; put tgpu.fence_async there}}
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

// -----

// Threads read a slot of the TMA unit, and no fence is behind that.
#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
#rows = #tgpu.layout<"core=[1,64,64] reps=[1,1,1] reg=[(0,0,1),(0,8,0),(0,0,8),(0,0,16),(0,0,32)] lane=[(0,0,2),(0,0,4),(0,1,0),(0,2,0),(0,4,0)] warp=[(0,16,0),(0,32,0)]">
func.func @read_without_fence(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %x = tgpu.copy_out %a : !s -> tensor<1x64x64xbf16, #rows>
        // expected-error @+1 {{a slot of pipe 0 that threads read is released without a fence behind the reads, and the TMA unit writes there next [check_pipeline_c21]; put tgpu.fence_async before the release}}
        tgpu.pipe_release %pipe keep 0 : !p
        scf.yield %acc : tensor<64x64xf32, #l>
      }
      %c = tile.cast %sum : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
      tgpu.global_store %c, %A[%i, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
    }
  }
  return
}

// -----

// The fence stands before the reads.
#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
#rows = #tgpu.layout<"core=[1,64,64] reps=[1,1,1] reg=[(0,0,1),(0,8,0),(0,0,8),(0,0,16),(0,0,32)] lane=[(0,0,2),(0,0,4),(0,1,0),(0,2,0),(0,4,0)] warp=[(0,16,0),(0,32,0)]">
func.func @fence_before_read(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        tgpu.fence_async
        %x = tgpu.copy_out %a : !s -> tensor<1x64x64xbf16, #rows>
        // expected-error @+1 {{a slot of pipe 0 that threads read is released without a fence behind the reads, and the TMA unit writes there next [check_pipeline_c21]; put tgpu.fence_async before the release}}
        tgpu.pipe_release %pipe keep 0 : !p
        scf.yield %acc : tensor<64x64xf32, #l>
      }
      %c = tile.cast %sum : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
      tgpu.global_store %c, %A[%i, %z] axes [] lo[] hi[] : tensor<64x64xbf16, #l>, !t
    }
  }
  return
}
