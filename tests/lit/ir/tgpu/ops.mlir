// SPDX-License-Identifier: Apache-2.0
// Every tgpu op, type and attribute is printed as it is read, also from the generic form.
// RUN: sectile-opt %s | sectile-opt | FileCheck %s
// RUN: sectile-opt %s --mlir-print-op-generic | sectile-opt | FileCheck %s

// CHECK-DAG: #[[V:[a-z0-9]+]] = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
#vector = #tgpu.layout<"core=[64] reps=[1] reg=[(1)] lane=[(2),(4),(8),(16),(32)] warp=[]">
// CHECK-DAG: #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#strided = #tgpu.layout<"core=[64] reps=[1] reg=[(32)] lane=[(1),(2),(4),(8),(16)] warp=[]">
#rows = #tgpu.layout<"core=[16,8] reps=[1,1] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]">
#rowsFolded = #tgpu.layout<"core=[16,1] reps=[1,1] reg=[(8,0)] lane=[(0,0),(0,0),(1,0),(2,0),(4,0)] warp=[]">
#split = #tgpu.layout<"core=[16,16] reps=[1,1] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[(0,8),(0,0)]">
#splitFolded = #tgpu.layout<"core=[16,2] reps=[1,1] reg=[(8,0)] lane=[(0,0),(0,0),(1,0),(2,0),(4,0)] warp=[(0,1),(0,0)]">
#a = #tgpu.layout<"core=[16,16] reps=[1,1] reg=[(0,1),(8,0),(0,8)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]">
#b = #tgpu.layout<"core=[16,8] reps=[1,1] reg=[(1,0),(8,0)] lane=[(2,0),(4,0),(0,1),(0,2),(0,4)] warp=[]">

// CHECK-LABEL: func.func @memory
// CHECK-SAME: tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 256>
func.func @memory(%X: !tile.tensor<1, f32>, %i: index, %hi: index, %m: tensor<64xi1, #vector>, %at: tensor<64xindex, #vector>)
    attributes {tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 256>, tgpu.target = "sm_90a"} {
  // CHECK: tgpu.global_load %{{.*}}[%{{.*}}] axes [0] lo[%{{.*}}] hi[%{{.*}}] pad 0.000000e+00 : f32 : !tile.tensor<1, f32> -> tensor<64xf32, #[[V]]>
  %a = tgpu.global_load %X[%i] axes [0] lo[%i] hi[%hi] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<64xf32, #vector>
  // CHECK: tgpu.global_load %{{.*}}[%{{.*}}] axes [] lo[] hi[] pad 0.000000e+00 : f32
  %b = tgpu.global_load %X[%i] axes [] lo[] hi[] pad 0.0 : f32 : !tile.tensor<1, f32> -> tensor<64xf32>
  // CHECK: tgpu.global_gather %{{.*}}[%{{.*}}] mask %{{.*}} : !tile.tensor<1, f32>, (tensor<64xindex, #[[V]]>), tensor<64xi1, #[[V]]> -> tensor<64xf32, #[[V]]>
  %g = tgpu.global_gather %X[%at] mask %m : !tile.tensor<1, f32>, (tensor<64xindex, #vector>), tensor<64xi1, #vector> -> tensor<64xf32, #vector>
  // CHECK: tile.binary add %{{.*}}, %{{.*}} : tensor<64xf32, #[[V]]>
  %s = tile.binary add %a, %g : tensor<64xf32, #vector>
  // CHECK: tgpu.buffer_alloc at 128 : !tgpu.buffer<[64], f32>
  %placed = tgpu.buffer_alloc at 128 : !tgpu.buffer<[64], f32>
  // CHECK: tgpu.buffer_alloc : !tgpu.buffer<[32, 64], bf16, [8, 3, 8, 16, 32]>
  %swizzled = tgpu.buffer_alloc : !tgpu.buffer<[32, 64], bf16, [8, 3, 8, 16, 32]>
  // CHECK: tgpu.buffer_view %{{.*}} : !tgpu.buffer<[64], f32> -> !tgpu.buffer<[8, 8], f32>
  %view = tgpu.buffer_view %placed : !tgpu.buffer<[64], f32> -> !tgpu.buffer<[8, 8], f32>
  // CHECK: tgpu.copy %{{.*}}, %{{.*}} : tensor<64xf32, #[[V]]>, !tgpu.buffer<[64], f32>
  tgpu.copy %s, %placed : tensor<64xf32, #vector>, !tgpu.buffer<[64], f32>
  // CHECK: tgpu.barrier
  tgpu.barrier
  // CHECK: tgpu.cluster_start
  tgpu.cluster_start
  %holds = tile.compare lt %s, %s : tensor<64xf32, #vector> -> tensor<64xi1, #vector>
  // CHECK: tgpu.warp_any %{{.*}} : tensor<64xi1, #[[V]]>
  %rare = tgpu.warp_any %holds : tensor<64xi1, #vector>
  // CHECK: tgpu.bits %{{.*}} : tensor<64xf32, #[[V]]> -> tensor<64xi32, #[[V]]>
  %bits = tgpu.bits %s : tensor<64xf32, #vector> -> tensor<64xi32, #vector>
  // CHECK: tgpu.peer_copy %{{.*}}, %{{.*}} at 256 : tensor<64xf32, #[[V]]>, !tgpu.buffer<[64], f32>
  tgpu.peer_copy %s, %placed at 256 : tensor<64xf32, #vector>, !tgpu.buffer<[64], f32>
  // CHECK: tgpu.peer_wait %{{.*}} at 256 : !tgpu.buffer<[64], f32>
  tgpu.peer_wait %placed at 256 : !tgpu.buffer<[64], f32>
  // CHECK: tgpu.barrier cluster
  tgpu.barrier cluster
  // CHECK: tgpu.copy_out %{{.*}} : !tgpu.buffer<[64], f32> -> tensor<64xf32, #{{.*}}>
  %r = tgpu.copy_out %placed : !tgpu.buffer<[64], f32> -> tensor<64xf32, #strided>
  // CHECK: tgpu.convert_layout %{{.*}} : tensor<64xf32, #{{.*}}> -> tensor<64xf32, #[[V]]>
  %c = tgpu.convert_layout %r : tensor<64xf32, #strided> -> tensor<64xf32, #vector>
  // CHECK: tgpu.global_store %{{.*}}, %{{.*}}[%{{.*}}] axes [0] lo[%{{.*}}] hi[%{{.*}}] mask %{{.*}} : tensor<64xi1, #[[V]]> : tensor<64xf32, #[[V]]>, !tile.tensor<1, f32>
  tgpu.global_store %c, %X[%i] axes [0] lo[%i] hi[%hi] mask %m : tensor<64xi1, #vector> : tensor<64xf32, #vector>, !tile.tensor<1, f32>
  // CHECK: tgpu.global_store %{{.*}}, %{{.*}}[%{{.*}}] axes [] lo[] hi[] : tensor<64xf32>, !tile.tensor<1, f32>
  tgpu.global_store %b, %X[%i] axes [] lo[] hi[] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<16x8xf32, #rows>, %p: tensor<16x8xindex, #rows>, %y: tensor<16x16xf32, #split>) {
  // CHECK: tgpu.reduce sum %{{.*}}, 1 : tensor<16x8xf32, #{{.*}}> -> tensor<16x1xf32, #{{.*}}>
  %s = tgpu.reduce sum %x, 1 : tensor<16x8xf32, #rows> -> tensor<16x1xf32, #rowsFolded>
  // CHECK: tgpu.reduce argmax %{{.*}} at %{{.*}} : tensor<16x8xindex, #{{.*}}>, 1 : tensor<16x8xf32, #{{.*}}> -> tensor<16x1xf32, #{{.*}}>, tensor<16x1xindex, #{{.*}}>
  %v, %q = tgpu.reduce argmax %x at %p : tensor<16x8xindex, #rows>, 1 : tensor<16x8xf32, #rows> -> tensor<16x1xf32, #rowsFolded>, tensor<16x1xindex, #rowsFolded>
  // Two pairs of warps hold the halves of every row: two parts.
  // CHECK: tgpu.reduce max %{{.*}}, 1 : tensor<16x16xf32, #{{.*}}> -> tensor<16x2xf32, #{{.*}}>
  %t = tgpu.reduce max %y, 1 : tensor<16x16xf32, #split> -> tensor<16x2xf32, #splitFolded>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<16x16xbf16, #a>, %b: tensor<16x8xbf16, #b>, %c: tensor<16x8xf32, #rows>) {
  // CHECK: tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x16xbf16, #{{.*}}>, tensor<16x8xbf16, #{{.*}}>, tensor<16x8xf32, #{{.*}}>
  %d = tgpu.mma_sync #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn"> %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #rows>
  %p = tgpu.buffer_alloc : !tgpu.buffer<[16, 16], f32>
  %q = tgpu.buffer_alloc : !tgpu.buffer<[16, 8], f32>
  // CHECK: tgpu.mma_fma %{{.*}}, %{{.*}}, %{{.*}} : !tgpu.buffer<[16, 16], f32>, !tgpu.buffer<[16, 8], f32>, tensor<16x8xf32, #{{.*}}>
  %e = tgpu.mma_fma %p, %q, %d : !tgpu.buffer<[16, 16], f32>, !tgpu.buffer<[16, 8], f32>, tensor<16x8xf32, #rows>
  return
}

// CHECK-LABEL: func.func @parts
func.func @parts(%X: !tile.tensor<1, f32>, %x: tensor<64xf32, #vector>, %n: i32) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %s = tile.constant 64 : index
  %end = tile.cast %n : i32 -> index
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = tgpu.split_range %{{.*}} to %{{.*}} by %{{.*}} min_trips 4 parts 0
  %part, %first, %trips = tgpu.split_range %z to %end by %s min_trips 4 parts 0
  // CHECK: tgpu.combine_parts [#tile<binary_fn add>, #tile<binary_fn min>] %{{.*}}, %{{.*}} : tensor<64xf32, #[[V]]>, index -> tensor<64xf32, #[[V]]>, index
  %last, %total:2 = tgpu.combine_parts [#tile<binary_fn add>, #tile<binary_fn min>] %x, %end : tensor<64xf32, #vector>, index -> tensor<64xf32, #vector>, index
  return
}
