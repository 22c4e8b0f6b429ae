// SPDX-License-Identifier: Apache-2.0
// Which loads two blocks share: those of which nothing depends on the place along one axis, the larger ones of two axes; by rule
// only where rows start inside lines of the L2 cache.
// RUN: sectile-opt %s --pass-pipeline='builtin.module(func.func(sectile-share-loads{multicast=2}))' | FileCheck %s
// RUN: sectile-opt %s --pass-pipeline='builtin.module(func.func(sectile-share-loads))' | FileCheck %s --check-prefix=RULE
// RUN: sectile-opt %s --pass-pipeline='builtin.module(func.func(sectile-share-loads{multicast=1}))' | FileCheck %s --check-prefix=NEVER

// NEVER-NOT: tgpu.pair
// NEVER-NOT: tgpu.shared_load

!A = !tile.tensor<2, bf16>
#box128 = #tgpu.map<order = [1, 0], box = [64, 128], swizzle = 128, limits = ["dim(0,0)", "dim(0,1)"]>
#box256 = #tgpu.map<order = [1, 0], box = [64, 256], swizzle = 128, limits = ["dim(1,0)", "dim(1,1)"]>
#box8 = #tgpu.map<order = [1, 0], box = [64, 8], swizzle = 128, limits = ["dim(1,0)", "dim(1,1)"]>
!rows128 = !tgpu.buffer<[1, 128, 64], bf16, [8, 3, 8, 16, 32]>
!rows256 = !tgpu.buffer<[1, 256, 64], bf16, [8, 3, 8, 16, 32]>
!rows8 = !tgpu.buffer<[1, 8, 64], bf16, [8, 3, 8, 16, 32]>

// B does not depend on %m, A not on %n; B is larger.
// CHECK-LABEL: func.func @larger
// CHECK-SAME: tgpu.pair = 0 : i64
// CHECK: tgpu.stage_load %{{.*}}box = [64, 128]
// CHECK-NOT: tgpu.shared_load
// CHECK: tgpu.stage_load %{{.*}}box = [64, 256]
// CHECK-SAME: {tgpu.shared_load}
// RULE-LABEL: func.func @larger
// RULE-NOT: tgpu.pair
// RULE: return
func.func @larger(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m, %n = tile.grid %C [128, 256] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  scf.for %k = %z to %K step %s {
    %a = tgpu.stage_load %A[%m, %k] map(#box128) : !A -> !rows128
    %b = tgpu.stage_load %B[%n, %k] map(#box256) : !A -> !rows256
  }
  return
}

// The loop over %k is longer for later %m (as in causal attention): what it loads is not shared along %m, though no offset depends
// on it.
// CHECK-LABEL: func.func @longer
// CHECK-SAME: no pairs of blocks that load together: how often a loop with loads runs depends on the program's place along axis 0
// CHECK-NOT: tgpu.pair =
// CHECK: return
func.func @longer(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.binary add %m, %s : index
  scf.for %k = %z to %K step %s {
    %b = tgpu.stage_load %B[%z, %k] map(#box256) : !A -> !rows256
  }
  return
}

// Nor is what comes before it: programs of different length would wait for each other.
// CHECK-LABEL: func.func @before
// CHECK-SAME: how often a loop with loads runs depends on the program's place along axis 0
// CHECK-NOT: tgpu.pair =
// CHECK: return
func.func @before(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %first = tgpu.stage_load %B[%z, %z] map(#box256) : !A -> !rows256
  scf.for %k = %s to %m step %s {
    %b = tgpu.stage_load %B[%z, %k] map(#box256) : !A -> !rows256
  }
  return
}

// A carried value that begins at %m reaches the offset in a later trip.
// CHECK-LABEL: func.func @carried
// CHECK-SAME: no two neighbouring programs load the same by the TMA unit
// CHECK-NOT: tgpu.pair =
// CHECK: return
func.func @carried(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  %r:2 = scf.for %k = %z to %K step %s iter_args(%x = %z, %y = %m) -> (index, index) {
    %b = tgpu.stage_load %B[%x, %k] map(#box256) : !A -> !rows256
    scf.yield %y, %y : index, index
  }
  return
}

// Eight rows are one pattern of the swizzle.
// CHECK-LABEL: func.func @small
// CHECK-SAME: no two neighbouring programs load the same by the TMA unit
// CHECK-NOT: tgpu.pair =
// CHECK: return
func.func @small(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  scf.for %k = %z to %K step %s {
    %b = tgpu.stage_load %B[%z, %k] map(#box8) : !A -> !rows8
  }
  return
}

// No loads for several blocks on this target.
// CHECK-LABEL: func.func @older
// CHECK-SAME: the target has no loads for several blocks
func.func @older(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_80", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %b = tgpu.stage_load %B[%z, %z] map(#box256) : !A -> !rows256
  return
}

// Several blocks run one program, or share its loop.
// CHECK-LABEL: func.func @cluster
// CHECK-SAME: several blocks run one program
func.func @cluster(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0, cluster = 2>} {
  %m = tile.grid %C [128] : !A -> index
  %z = tile.constant 0 : index
  %b = tgpu.stage_load %B[%z, %z] map(#box256) : !A -> !rows256
  return
}

// CHECK-LABEL: func.func @one
// CHECK-SAME: there is one program
func.func @one(%A: !A, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %z = tile.constant 0 : index
  %b = tgpu.stage_load %B[%z, %z] map(#box256) : !A -> !rows256
  return
}

// Rows of 8 mod 16 elements start inside lines: pairs also by rule.
// RULE-LABEL: func.func @inside_lines
// RULE-SAME: tgpu.pair = 0 : i64
// RULE: tgpu.stage_load %arg0
// RULE-NOT: tgpu.shared_load
// RULE: tgpu.stage_load %arg1
// RULE-SAME: {tgpu.shared_load}
func.func @inside_lines(%A: !A, %B: !A {tile.stride_div = array<i64: 8, 1>, tile.unit_stride = 1 : i64}, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m, %n = tile.grid %C [128, 256] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  scf.for %k = %z to %K step %s {
    %a = tgpu.stage_load %A[%m, %k] map(#box128) : !A -> !rows128
    %b = tgpu.stage_load %B[%n, %k] map(#box256) : !A -> !rows256
  }
  return
}

// Rows of 16 elements more or less may start at lines.
// RULE-LABEL: func.func @at_lines
// RULE-NOT: tgpu.pair
// RULE: return
func.func @at_lines(%A: !A, %B: !A {tile.stride_div = array<i64: 16, 1>, tile.unit_stride = 1 : i64}, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m, %n = tile.grid %C [128, 256] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  scf.for %k = %z to %K step %s {
    %a = tgpu.stage_load %A[%m, %k] map(#box128) : !A -> !rows128
    %b = tgpu.stage_load %B[%n, %k] map(#box256) : !A -> !rows256
  }
  return
}

// What a launch may copy first is counted for pairs: 256 rows of A for each, still 64 columns in each trip.
// CHECK-LABEL: func.func @wish
// CHECK-SAME: tgpu.repack = array<i64: 1, 256, 0>
// CHECK-SAME: tgpu.pair = 0 : i64
func.func @wish(%A: !A {tgpu.repack = array<i64: 1, 128, 0>}, %B: !A, %C: !A) attributes {tile.kernel, tgpu.target = "sm_90a", tgpu.launch = #tgpu.launch<warps = 8, shared_bytes = 0>} {
  %m, %n = tile.grid %C [128, 256] : !A -> index, index
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %K = tile.dim %A, 1 : !A
  scf.for %k = %z to %K step %s {
    %a = tgpu.global_load %A[%m, %k] axes [] lo[] hi[] pad 0.0 : bf16 : !A -> tensor<128x64xbf16>
    %b = tgpu.stage_load %B[%n, %k] map(#box256) : !A -> !rows256
  }
  return
}
