// SPDX-License-Identifier: Apache-2.0
// Counts, phases and what the producer does: one fault each, put into the first kernel of check-pipeline.mlir.
// RUN: sectile-opt %s --sectile-check-pipeline --split-input-file --verify-diagnostics -o /dev/null

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @wrong_arrivals_full(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  // expected-error @+1 {{a slot of pipe 0 is full after 2 arrivals, and the producer makes 1 [check_pipeline_c1]; full must be 1}}
  %pipe = tgpu.pipe_create full 2 empty 4 at 0, 65536 : !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @wrong_arrivals_empty(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  // expected-error @+1 {{a slot of pipe 0 is empty after 8 arrivals, and 4 warps release it [check_pipeline_c2]; empty must be the warps of the launch}}
  %pipe = tgpu.pipe_create full 1 empty 8 at 0, 65536 : !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @phase_off_by_one(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  // expected-error @+1 {{the producer's first wait for a slot of pipe 0 looks for parity 0, and the phase before the first has parity 1 [check_pipeline_c3]; free must be 1}}
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 {free = 0 : i64} : !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @reused_slot(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{a copy fills a slot of pipe 0 that is not acquired [check_pipeline_c4]; acquire it first}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @extra_commit(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{a slot of pipe 0 is committed that is not acquired [check_pipeline_c4]; acquire it first}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @missing_commit(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{a slot of pipe 0 is acquired while one of pipe 0 is being filled [check_pipeline_c4]; commit that first}}
        tgpu.pipe_acquire %pipe bytes 16384 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.tma_load %B[%j, %i] map(#map) to %pipe[1] : !t, !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @open_end(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  // expected-error @+1 {{the producer ends with a slot of pipe 0 acquired and not committed [check_pipeline_c4]; commit it}}
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
    tgpu.pipe_acquire %pipe bytes 16384 : !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @all_threads(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{tgpu.barrier needs all threads, and the producer is one [check_pipeline_c4]; only the consumers may have it}}
        tgpu.barrier
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @wrong_bytes(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        tgpu.pipe_acquire %pipe bytes 16383 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
        tgpu.tma_load %B[%j, %i] map(#map) to %pipe[1] : !t, !p
        // expected-error @+1 {{a slot of pipe 0 waits for 16383 bytes, its copies bring 16384 [check_pipeline_c5]; announce what the copies bring}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @buffer_twice(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{buffer 0 of a slot of pipe 0 is filled twice [check_pipeline_c6]; one copy fills each buffer}}
        tgpu.tma_load %B[%j, %i] map(#map) to %pipe[0] : !t, !p
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @buffer_missing(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        tgpu.pipe_acquire %pipe bytes 8192 : !p
        tgpu.tma_load %A[%i, %j] map(#map) to %pipe[0] : !t, !p
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
