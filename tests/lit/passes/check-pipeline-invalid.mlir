// SPDX-License-Identifier: Apache-2.0
// One fault each, put into the first kernel of check-pipeline.mlir.
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @missing_wait(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    // expected-error @+1 {{the producer goes on with a loop (scf.for), the consumers with nothing [check_pipeline_c7]; both roles must take the same slots in the same order}}
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
        tgpu.wgmma_wait 1
        tgpu.pipe_release %pipe keep 1 : !p
        scf.yield %acc : tensor<64x64xf32, #l>
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
func.func @extra_fill(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{the producer goes on with a slot of pipe 0, the consumers with nothing [check_pipeline_c7]; both roles must take the same slots in the same order}}
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
func.func @branch_and_loop(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %t = tile.compare lt %z, %j : index -> i1
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
        // expected-error @+1 {{the producer goes on with a branch, the consumers with a slot of pipe 0 [check_pipeline_c7]; both roles must take the same slots in the same order}}
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
func.func @other_bounds(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %pipe = tgpu.pipe_create full 1 empty 4 at 0, 65536 : !p
  tgpu.roles registers 0 producer {
    %first, %step = tgpu.block_number
    %programs = tgpu.programs %A [64] : !t
    scf.for %i = %first to %programs step %step {
      %z = tile.constant 0 : index
      %k = tile.constant 64 : index
      %K = tile.dim %A, 1 : !t
      scf.for %j = %z to %k step %k {
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
      // expected-error @+1 {{the upper bound is 64 in the producer, and a result of tile.dim in the consumers, not proved to be the same [check_pipeline_c8]; both roles must compute it in the same way}}
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
func.func @other_start(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      // expected-error @+1 {{the lower bound is 0 in the producer, and 64 in the consumers, not proved to be the same [check_pipeline_c8]; both roles must compute it in the same way}}
      %sum = scf.for %j = %k to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
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
func.func @other_step(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      // expected-error @+1 {{the step is 64 in the producer, and 0 in the consumers, not proved to be the same [check_pipeline_c8]; both roles must compute it in the same way}}
      %sum = scf.for %j = %z to %K step %z iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
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
func.func @other_condition(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %t = tile.compare le %i, %j : index -> i1
        // expected-error @+1 {{the condition is a result of tile.compare in the producer, and a result of tile.compare in the consumers, not proved to be the same [check_pipeline_c8]; both roles must compute it in the same way}}
        %s = scf.if %t -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 1
        tgpu.pipe_release %pipe keep 1 : !p
        scf.yield %d : tensor<64x64xf32, #l>
        } else {
        scf.yield %acc : tensor<64x64xf32, #l>
        }
        scf.yield %s : tensor<64x64xf32, #l>
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
func.func @missing_release(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{the consumers wait for a slot of pipe 0 while they hold 4 of its 4 slots, for ever [check_pipeline_c9]; release one first}}
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 1
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
func.func @kept_slot(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{the consumers end with 1 slots of pipe 0 not released [check_pipeline_c9]; release each slot that was waited for}}
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 1
        tgpu.pipe_release %pipe keep 1 : !p
        scf.yield %d : tensor<64x64xf32, #l>
      }
      %ready = tgpu.wgmma_wait 0 for %sum : tensor<64x64xf32, #l>
      tgpu.pipe_release %pipe keep 1 : !p
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
func.func @read_after_release(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        tgpu.pipe_release %pipe keep 0 : !p
        // expected-error @+1 {{a slot of pipe 0 is read after its release [check_pipeline_c10]; release it behind its last use}}
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
func.func @unknown_slot(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %t = tile.compare lt %i, %j : index -> i1
        %one = scf.if %t -> (!s) {
          scf.yield %a : !s
        } else {
          scf.yield %b : !s
        }
        // expected-error @+1 {{it is not known which slot a buffer lies in [check_pipeline_c10]; use results of tgpu.pipe_wait and tgpu.buffer_alloc directly}}
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %one, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
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
func.func @released_too_early(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{a slot of pipe 0 is released while one of 1 products under way reads it [check_pipeline_c11]; wait for the product first}}
        tgpu.pipe_release %pipe keep 0 : !p
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
func.func @released_too_early_next_trip(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        tgpu.wgmma_wait 2
        // expected-error @+1 {{a slot of pipe 0 is released while one of 2 products under way reads it [check_pipeline_c11]; wait for the product first}}
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
func.func @read_before_wait(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      // expected-error @+1 {{the result of a product is used while the product may be under way [check_pipeline_c12]; use what tgpu.wgmma_wait gives for it}}
      %c = tile.cast %sum : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
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
func.func @read_beside_wait(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      // expected-error @+1 {{the result of a product is used without the wait for it [check_pipeline_c12]; use what tgpu.wgmma_wait gives for it}}
      %c = tile.cast %sum : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
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
func.func @short_wait(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      // expected-error @+1 {{a wait that leaves 1 products under way names the result of one of them, with 0 behind it [check_pipeline_c12]; leave fewer under way}}
      %ready = tgpu.wgmma_wait 1 for %sum : tensor<64x64xf32, #l>
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
func.func @two_sums(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        // expected-error @+1 {{two products add to the result of one [check_pipeline_c12]; the second needs what tgpu.wgmma_wait gives for it}}
        %e = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
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
func.func @old_sum(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %e = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %d : !s, !s, tensor<64x64xf32, #l>
        // expected-error @+1 {{a wait names a result to which a later product adds [check_pipeline_c12]; name the later result}}
        %f = tgpu.wgmma_wait 0 for %d : tensor<64x64xf32, #l>
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
func.func @slot_written(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
        %v = tile.constant dense<0.0> : tensor<1x64x64xbf16>
        // expected-error @+1 {{a slot of pipe 0 is written by the consumers [check_pipeline_c13]; only the producer's copies may fill it}}
        tgpu.copy %v, %a : tensor<1x64x64xbf16>, !s
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
func.func @overwritten(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 75776, producers = 4>} {
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
      %own = tgpu.buffer_alloc at 67584 : !s
      %v = tile.constant dense<0.0> : tensor<1x64x64xbf16>
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        // expected-error @+1 {{shared memory is overwritten while a product reads it [check_pipeline_c13]; wait for the product, then for all threads}}
        tgpu.copy %v, %own : tensor<1x64x64xbf16>, !s
        tgpu.barrier
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %own mn, %acc : !s, !s, tensor<64x64xf32, #l>
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
func.func @overwritten_by_others(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 75776, producers = 4>} {
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
      %own = tgpu.buffer_alloc at 67584 : !s
      %v = tile.constant dense<0.0> : tensor<1x64x64xbf16>
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        // expected-error @+1 {{shared memory is overwritten without a barrier behind the product that reads it [check_pipeline_c13]; wait for the product, then for all threads}}
        tgpu.copy %v, %own : tensor<1x64x64xbf16>, !s
        tgpu.barrier
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %own mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 0
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
func.func @endless(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      %own = tgpu.buffer_alloc at 67584 : !s
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        // expected-error @+1 {{more than 32 products can be under way here [check_pipeline_c14]; wait for earlier ones, also in each trip of a loop}}
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.pipe_release %pipe keep 0 : !p
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
func.func @not_awaited(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      %own = tgpu.buffer_alloc at 67584 : !s
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        // expected-error @+1 {{1 products are under way at the end of the kernel [check_pipeline_c14]; wait for them}}
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %acc : !s, !s, tensor<64x64xf32, #l>
        tgpu.wgmma_wait 1
        tgpu.pipe_release %pipe keep 0 : !p
        scf.yield %d : tensor<64x64xf32, #l>
      }
      %c = tile.cast %zero : tensor<64x64xf32, #l> -> tensor<64x64xbf16, #l>
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
func.func @past_the_end(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 65536, producers = 4>} {
  // expected-error @+1 {{a pipe ends at byte 65600 of shared memory, and the launch has 65536 [check_pipeline_c15]; run sectile-place-memory first}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @overlapping(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
    tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 66048, producers = 4>} {
  %own = tgpu.buffer_alloc at 65024 : !s
  // expected-error @+1 {{bytes 0 to 65536 of a pipe overlap bytes 65024 to 73216 of tgpu.buffer_alloc [check_pipeline_c15]; run sectile-place-memory first}}
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

// -----

#l = #tgpu.layout<"core=[64,64] reps=[1,1] reg=[(0,1),(8,0),(0,8),(0,16),(0,32)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(16,0),(32,0)]">
#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @many_states(%A: !t, %B: !t, %n: i32) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.persistent,
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
      %own = tgpu.buffer_alloc at 67584 : !s
      %c0 = tile.constant 0 : index
      %c1 = tile.constant 1 : index
      %c2 = tile.constant 2 : index
      %c3 = tile.constant 3 : index
      %c4 = tile.constant 4 : index
      %c5 = tile.constant 5 : index
      %c6 = tile.constant 6 : index
      %c7 = tile.constant 7 : index
      %c8 = tile.constant 8 : index
      %c9 = tile.constant 9 : index
      %c10 = tile.constant 10 : index
      %sum = scf.for %j = %z to %K step %k iter_args(%acc = %zero) -> (tensor<64x64xf32, #l>) {
        %a, %b = tgpu.pipe_wait %pipe : !p -> !s, !s
        %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b mn, %acc : !s, !s, tensor<64x64xf32, #l>
        %t0 = tile.compare eq %j, %c0 : index -> i1
        scf.if %t0 {
          %x0 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t1 = tile.compare eq %j, %c1 : index -> i1
        scf.if %t1 {
          %x1 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t2 = tile.compare eq %j, %c2 : index -> i1
        scf.if %t2 {
          %x2 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t3 = tile.compare eq %j, %c3 : index -> i1
        scf.if %t3 {
          %x3 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t4 = tile.compare eq %j, %c4 : index -> i1
        scf.if %t4 {
          %x4 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t5 = tile.compare eq %j, %c5 : index -> i1
        scf.if %t5 {
          %x5 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t6 = tile.compare eq %j, %c6 : index -> i1
        scf.if %t6 {
          %x6 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t7 = tile.compare eq %j, %c7 : index -> i1
        scf.if %t7 {
          %x7 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t8 = tile.compare eq %j, %c8 : index -> i1
        scf.if %t8 {
          %x8 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t9 = tile.compare eq %j, %c9 : index -> i1
        scf.if %t9 {
          %x9 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        %t10 = tile.compare eq %j, %c10 : index -> i1
        // expected-error @+1 {{more than 1024 states of pipes and products can meet here [check_pipeline_c14]; wait for products and release slots on all ways of a branch alike}}
        scf.if %t10 {
          %x10 = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %own, %own mn, %zero : !s, !s, tensor<64x64xf32, #l>
        }
        tgpu.wgmma_wait 0
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
