// SPDX-License-Identifier: Apache-2.0
// Slots that the roles take in different ways, or never get: one fault each, put into the first kernel of check-pipeline.mlir.
// RUN: sectile-opt %s --sectile-check-pipeline --split-input-file --verify-diagnostics -o /dev/null

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
