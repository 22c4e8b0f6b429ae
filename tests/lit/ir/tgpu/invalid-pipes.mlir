// SPDX-License-Identifier: Apache-2.0
// One wrong program per rule of roles, pipes, asynchronous products and persistent kernels, named after the rule's label.
// RUN: sectile-opt %s --split-input-file --verify-diagnostics -o /dev/null

// expected-error @+1 {{2 producer warps beside 4 warps [launch_c4]; use 0, or 4 beside a multiple of 4}}
func.func @launch_c4() attributes {l = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 2>} { return }

// -----

// expected-error @+1 {{4 producer warps beside 2 warps [launch_c4]; use 0, or 4 beside a multiple of 4}}
func.func @launch_c4_warps() attributes {l = #tgpu.launch<warps = 2, shared_bytes = 0, cluster = 2, producers = 4>} { return }

// -----

// expected-error @+1 {{order is no permutation of 1 to 5 axes [map_c1]}}
func.func @map_c1() attributes {m = #tgpu.map<order = [1, 1], box = [64, 64], swizzle = 128, limits = ["inf", "inf"]>} { return }

// -----

// expected-error @+1 {{2 axes, 1 box lengths and 2 limits [map_c1]; give one each per axis}}
func.func @map_c1_box() attributes {m = #tgpu.map<order = [1, 0], box = [64], swizzle = 128, limits = ["inf", "inf"]>} { return }

// -----

// expected-error @+1 {{a swizzle of 48 bytes [map_c2]; use 16, 32, 64 or 128}}
func.func @map_c2() attributes {m = #tgpu.map<order = [0], box = [64], swizzle = 48, limits = ["inf"]>} { return }

// -----

// expected-error @+1 {{a box length of 257 [map_c3]; use 1 to 256}}
func.func @map_c3() attributes {m = #tgpu.map<order = [0], box = [257], swizzle = 16, limits = ["inf"]>} { return }

// -----

// expected-error @+1 {{the limit "dim(0)" is no expression: ',' is missing before ")" [map_c4]}}
func.func @map_c4() attributes {m = #tgpu.map<order = [0], box = [64], swizzle = 16, limits = ["dim(0)"]>} { return }

// -----

// expected-error @+1 {{0 stages [pipe_c1]; a pipe has at least 1}}
func.func @pipe_c1(%p: !tgpu.pipe<0, <[64], f32>>) { return }

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @stage_load_c1(%A: !t, %i: index) {
  // expected-error @+1 {{1 offsets for a tensor of rank 2 [stage_load_c1]}}
  %b = tgpu.stage_load %A[%i] map(#map) : !t -> !s
  return
}

// -----

#map1 = #tgpu.map<order = [0], box = [64], swizzle = 128, limits = ["dim(0,0)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @stage_load_c2(%A: !t, %i: index) {
  // expected-error @+1 {{a map of 1 axes and a buffer with other elements, or of another rank, than the tensor of rank 2 [stage_load_c2]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map1) : !t -> !s
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
func.func @stage_load_c2_elements(%A: !t, %i: index) {
  // expected-error @+1 {{a map of 2 axes and a buffer with other elements, or of another rank, than the tensor of rank 2 [stage_load_c2]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map) : !t -> !tgpu.buffer<[1, 64, 64], f16, [8, 3, 8, 16, 32]>
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
func.func @stage_load_c3(%A: !t, %i: index) {
  // expected-error @+1 {{a buffer of [1, 64, 64] for boxes of [64, 64] with a swizzle of 128 bytes [stage_load_c3]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map) : !t -> !tgpu.buffer<[1, 64, 64], bf16>
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
func.func @stage_load_c3_rows(%A: !t, %i: index) {
  // expected-error @+1 {{a buffer of [1, 32, 64] for boxes of [64, 64] with a swizzle of 128 bytes [stage_load_c3]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map) : !t -> !tgpu.buffer<[1, 32, 64], bf16, [8, 3, 8, 16, 32]>
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @stage_load_c4(%A: !t, %i: index) {
  // expected-error @+1 {{copies of 2 bytes for rows of 64 elements of 2 bytes [stage_load_c4]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map) {copyBytes = 2 : i64} : !t -> !s
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [32, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"], tf32 = true>
!t = !tile.tensor<2, f32>
!s = !tgpu.buffer<[1, 64, 32], f32, [4, 3, 4, 8, 16]>
func.func @stage_load_c4_rounded(%A: !t, %i: index) {
  // expected-error @+1 {{copies of 16 bytes for rows of 32 elements of 4 bytes that are rounded [stage_load_c4]}}
  %b = tgpu.stage_load %A[%i, %i] map(#map) {copyBytes = 16 : i64} : !t -> !s
  return
}

// -----

func.func @roles_c1() attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  // expected-error @+1 {{another op stands behind it [roles_c1]}}
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
  }
  tgpu.barrier
  return
}

// -----

func.func @roles_c1_inside(%t: i1) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  scf.if %t {
    // expected-error @+1 {{it is not at the top level of the kernel, or not the only one [roles_c1]}}
    tgpu.roles registers 0 producer {
    } registers 0 consumer {
    }
  }
  return
}

// -----

func.func @roles_c2() attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>} {
  // expected-error @+1 {{the launch has no producer warps [roles_c2]}}
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
  }
  return
}

// -----

func.func @roles_c3() attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  // expected-error @+1 {{20 registers per thread [roles_c3]}}
  tgpu.roles registers 24 producer {
  } registers 20 consumer {
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_create_c1(%t: i1) {
  scf.if %t {
    // expected-error @+1 {{it is not at the top level of the kernel [pipe_create_c1]}}
    %p = tgpu.pipe_create full 1 empty 4 : !p
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_create_c2() {
  // expected-error @+1 {{its slots or barriers are not aligned [pipe_create_c2]}}
  %p = tgpu.pipe_create full 1 empty 4 at 512, 65536 : !p
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_create_c2_barriers() {
  // expected-error @+1 {{its slots or barriers are not aligned [pipe_create_c2]}}
  %p = tgpu.pipe_create full 1 empty 4 at 0, 65540 : !p
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_acquire_c1(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
    // expected-error @+1 {{it stands outside the producer of a tgpu.roles [pipe_acquire_c1]}}
    tgpu.pipe_acquire %p bytes 8192 : !p
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_commit_c1(%p: !p) {
  // expected-error @+1 {{it stands outside the producer of a tgpu.roles [pipe_commit_c1]}}
  tgpu.pipe_commit %p : !p
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @tma_load_c1(%A: !t, %i: index, %p: !p) {
  // expected-error @+1 {{it stands outside the producer of a tgpu.roles [tma_load_c1]}}
  tgpu.tma_load %A[%i, %i] map(#map) to %p[0] : !t, !p
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @tma_load_c2(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{the pipe has 1 buffers and no number 1 [tma_load_c2]}}
    tgpu.tma_load %A[%i, %i] map(#map) to %p[1] : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @tma_load_c3(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{it fills blocks of the bits 3, and the kernel has no pairs [tma_load_c3]}}
    tgpu.tma_load %A[%i, %i] map(#map) to %p[0] multicast 3 : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @tma_load_c3_bits(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>, tgpu.pair = 0} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{it fills blocks of the bits 4, and the kernel has two, 1 and 2 [tma_load_c3]}}
    tgpu.tma_load %A[%i, %i] map(#map) to %p[0] multicast 4 : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @tma_load_half(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>, tgpu.pair = 0} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{a buffer of [1, 64, 64] for boxes of [64, 64] with a swizzle of 128 bytes [stage_load_c3]}}
    tgpu.tma_load %A[%i, %i] map(#map) to %p[0] multicast 3 : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @async_load_c1(%A: !t, %i: index, %p: !p) {
  // expected-error @+1 {{it stands outside the producer of a tgpu.roles [async_load_c1]}}
  tgpu.async_load %A[%i, %i] map(#map) to %p[0] by 16 : !t, !p
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @async_load_c2(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{the pipe has 1 buffers and no number 1 [async_load_c2]}}
    tgpu.async_load %A[%i, %i] map(#map) to %p[1] by 16 : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

#map = #tgpu.map<order = [1, 0], box = [64, 64], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
!t = !tile.tensor<2, bf16>
!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @async_load_c2_width(%A: !t, %i: index, %p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{copies of 32 bytes for rows of 64 elements of 2 bytes [async_load_c2]}}
    tgpu.async_load %A[%i, %i] map(#map) to %p[0] by 32 : !t, !p
  } registers 0 consumer {
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @async_arrive_c1(%p: !p) {
  // expected-error @+1 {{it stands outside the producer of a tgpu.roles [async_arrive_c1]}}
  tgpu.async_arrive %p : !p
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @pipe_wait_c1(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{it stands outside the consumer of a tgpu.roles [pipe_wait_c1]}}
    %a = tgpu.pipe_wait %p : !p -> !s
  } registers 0 consumer {
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @pipe_wait_c2(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
    // expected-error @+1 {{its results are not the buffers of the pipe [pipe_wait_c2]}}
    %a, %b = tgpu.pipe_wait %p : !p -> !s, !s
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_release_c1(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
    // expected-error @+1 {{it stands outside the consumer of a tgpu.roles [pipe_release_c1]}}
    tgpu.pipe_release %p keep 0 : !p
  } registers 0 consumer {
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_release_c1_keep(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
    // expected-error @+1 {{-1 slots to keep [pipe_release_c1]}}
    tgpu.pipe_release %p keep -1 : !p
  }
  return
}

// -----

!p = !tgpu.pipe<4, <[1, 64, 64], bf16, [8, 3, 8, 16, 32]>>
func.func @pipe_release_c1_pair(%p: !p) attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0, producers = 4>} {
  tgpu.roles registers 0 producer {
  } registers 0 consumer {
    // expected-error @+1 {{the kernel has no pairs of blocks [pipe_release_c1]}}
    tgpu.pipe_release %p keep 0 pair : !p
  }
  return
}

// -----

!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @wgmma_c1(%a: !s, %b: !s, %c: tensor<64x128xf32>) {
  // expected-error @+1 {{a is [64, 64], b transposed [64, 64], acc [64, 128] [wgmma_c1]}}
  %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b, %c : !s, !s, tensor<64x128xf32>
  return
}

// -----

!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @wgmma_c2(%a: !s, %b: !s, %c: tensor<64x64xf32>) {
  // expected-error @+1 {{the atom sm80_m16n8k16_f32bf16bf16f32_tn has other element types, or is no wgmma [wgmma_c2]}}
  %d = tgpu.wgmma #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : !s, !s, tensor<64x64xf32>
  return
}

// -----

!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @wgmma_c3(%a: !s, %b: !s, %c: tensor<64x64xf32>) {
  // expected-error @+1 {{M, N, K = [64, 64, 64] are no multiples of the atom's [64, 128, 16] [wgmma_c3]}}
  %d = tgpu.wgmma #tgpu.atom<"sm90_m64n128k16_f32bf16bf16"> %a, %b, %c : !s, !s, tensor<64x64xf32>
  return
}

// -----

!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @wgmma_c4(%a: !tgpu.buffer<[1, 64, 64], i8, [16, 3, 0, 16, 32]>, %b: !tgpu.buffer<[1, 64, 64], i8, [16, 3, 0, 16, 32]>, %c: tensor<64x64xi32>) {
  // expected-error @+1 {{an operand of atom sm90_m64n64k32_s32s8s8 cannot be MN-major [wgmma_c4]}}
  %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k32_s32s8s8"> %a, %b mn, %c : !tgpu.buffer<[1, 64, 64], i8, [16, 3, 0, 16, 32]>, !tgpu.buffer<[1, 64, 64], i8, [16, 3, 0, 16, 32]>, tensor<64x64xi32>
  return
}

// -----

!s = !tgpu.buffer<[1, 64, 64], bf16, [8, 3, 8, 16, 32]>
func.func @wgmma_c5(%a: !s, %b: !tgpu.buffer<[1, 64, 64], bf16>, %c: tensor<64x64xf32>) {
  // expected-error @+1 {{a buffer of [1, 64, 64] is not swizzled as wgmma reads it [wgmma_c5]}}
  %d = tgpu.wgmma #tgpu.atom<"sm90_m64n64k16_f32bf16bf16"> %a, %b, %c : !s, !tgpu.buffer<[1, 64, 64], bf16>, tensor<64x64xf32>
  return
}

// -----

func.func @wgmma_wait_c1() {
  // expected-error @+1 {{8 pending groups; the hardware counts up to 7 [wgmma_wait_c1]}}
  tgpu.wgmma_wait 8
  return
}

// -----

!t = !tile.tensor<2, bf16>
func.func @bulk_store_c1(%v: tensor<64x64xbf16>, %X: !t, %i: index, %s: !tgpu.buffer<[4, 2, 16, 64], bf16>) {
  // expected-error @+1 {{1 offsets for a tensor of rank 2 [bulk_store_c1]}}
  tgpu.bulk_store %v, %X[%i] map(#tgpu.map<order = [1, 0], box = [64, 16], swizzle = 128, limits = ["inf", "inf"]>) through %s : tensor<64x64xbf16>, !t, !tgpu.buffer<[4, 2, 16, 64], bf16>
  return
}

// -----

!t = !tile.tensor<2, bf16>
func.func @bulk_store_c2(%v: tensor<64x64xbf16>, %X: !t, %i: index, %s: !tgpu.buffer<[4, 2, 16, 64], bf16>) {
  // expected-error @+1 {{a tile of [64, 64] in boxes of [64, 8] [bulk_store_c2]}}
  tgpu.bulk_store %v, %X[%i, %i] map(#tgpu.map<order = [1, 0], box = [64, 8], swizzle = 128, limits = ["inf", "inf"]>) through %s : tensor<64x64xbf16>, !t, !tgpu.buffer<[4, 2, 16, 64], bf16>
  return
}

// -----

!t = !tile.tensor<2, bf16>
func.func @bulk_store_c3(%v: tensor<64x64xbf16>, %X: !t, %i: index, %s: !tgpu.buffer<[4, 2, 8, 64], bf16>) {
  // expected-error @+1 {{a staging buffer of [4, 2, 8, 64] for boxes of [64, 16] [bulk_store_c3]}}
  tgpu.bulk_store %v, %X[%i, %i] map(#tgpu.map<order = [1, 0], box = [64, 16], swizzle = 128, limits = ["inf", "inf"]>) through %s : tensor<64x64xbf16>, !t, !tgpu.buffer<[4, 2, 8, 64], bf16>
  return
}

// -----

!t = !tile.tensor<2, bf16>
func.func @programs_c1(%X: !t) {
  // expected-error @+1 {{sizes [64, 64, 64] of a tensor of rank 2 [programs_c1]}}
  %n = tgpu.programs %X [64, 64, 64] : !t
  return
}

// -----

!t = !tile.tensor<2, bf16>
func.func @program_c1(%X: !t, %i: index) {
  // expected-error @+1 {{sizes [64, 0] of a tensor of rank 2 [program_c1]}}
  %m, %n = tgpu.program %i of %X [64, 0] group 1 : !t -> index, index
  return
}
