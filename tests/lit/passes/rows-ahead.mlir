// SPDX-License-Identifier: Apache-2.0
// Kernels without pipelines: blocks that go through several programs, loads one program or trip ahead, what the L2 cache keeps.
// RUN: sectile-opt %s --sectile-resolve-tails --sectile-select-mma=warps=4 --sectile-choose-cluster --sectile-assign-layouts --sectile-lower-tile-to-tgpu --sectile-lower-conversions --sectile-make-persistent=persistent=2 --sectile-hint-eviction=evict=2 --sectile-prefetch-loads=prefetch=2 | FileCheck %s
// RUN: sectile-opt %s --sectile-resolve-tails --sectile-select-mma=warps=4 --sectile-choose-cluster --sectile-assign-layouts --sectile-lower-tile-to-tgpu --sectile-lower-conversions --sectile-make-persistent --sectile-hint-eviction --sectile-prefetch-loads | FileCheck %s --check-prefix=PLAIN

// What all programs read stays in registers; the next program's row is loaded behind the last one's bounds only if there is one.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: tgpu.choices = ["persistent: as many blocks as run at once go through all programs", "evict: the L2 cache keeps what 0 accesses move before what 2 others do", "prefetch: of 1 load what the next program needs is under way, in 4 registers of a thread"]
// CHECK: %[[NUMBER:.*]], %[[COUNT:.*]] = tgpu.block_number
// CHECK: %[[ALL:.*]] = tgpu.programs
// CHECK: tgpu.global_load %arg1
// CHECK: tgpu.program %[[NUMBER]]
// CHECK: %[[FIRST:.*]] = tgpu.global_load %arg0
// CHECK: scf.for %[[P:.*]] = %[[NUMBER]] to %[[ALL]] step %[[COUNT]] iter_args(%[[ROW:.*]] = %[[FIRST]])
// CHECK: %[[NEXT:.*]] = tile.binary add %[[P]], %[[COUNT]]
// CHECK: %[[IS:.*]] = tile.compare lt %[[NEXT]], %[[ALL]]
// CHECK: tgpu.program %[[NEXT]]
// CHECK: %[[HI:.*]] = tile.select %[[IS]]
// CHECK: %[[AHEAD:.*]] = tgpu.global_load %arg0{{.*}} axes [0, 1] lo[{{.*}}] hi[%[[HI]],
// CHECK: tgpu.fill_outside %[[ROW]]
// CHECK-NOT: global_load
// CHECK: tgpu.global_store
// CHECK: scf.yield %[[AHEAD]]
// PLAIN-LABEL: func.func @rows
// PLAIN-NOT: tgpu.choices
// PLAIN: tile.grid
// PLAIN-NOT: scf.for
func.func @rows(%X: !tile.tensor<2, f32>, %W: !tile.tensor<1, f32>, %Y: !tile.tensor<2, f32>) attributes {tile.kernel, tile.apart} {
  %r = tile.grid %Y [1] : !tile.tensor<2, f32> -> index
  %z = tile.constant 0 : index
  %x = tile.load %X[%r, %z] : !tile.tensor<2, f32> -> tensor<1x512xf32>
  %t = tile.reduce max %x, 1 : tensor<1x512xf32> -> tensor<1x1xf32>
  %b = tile.broadcast %t : tensor<1x1xf32> -> tensor<1x512xf32>
  %w = tile.load %W[%z] : !tile.tensor<1, f32> -> tensor<512xf32>
  %v = tile.reshape %w : tensor<512xf32> -> tensor<1x512xf32>
  %d = tile.binary sub %x, %b : tensor<1x512xf32>
  %y = tile.binary mul %d, %v : tensor<1x512xf32>
  tile.store %y, %Y[%r, %z] : tensor<1x512xf32>, !tile.tensor<2, f32>
  return
}

// A row read twice: the first time the cache is to keep it, the second time and what is written make room. Rows of the first loop
// are loaded a trip ahead, as its threads wait for each other; the second loop has nothing to wait for.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: "evict: the L2 cache keeps what 1 accesses move before what 2 others do"
// CHECK-SAME: "prefetch: of 1 load what the next trip needs is under way, in 2 registers of a thread"
// CHECK: tgpu.global_load %arg0{{.*}} {tgpu.evict = "last"}
// CHECK: scf.for
// CHECK: tgpu.global_load %arg0{{.*}} {tgpu.evict = "last"}
// CHECK: scf.for
// CHECK: tgpu.global_load %arg0{{.*}} {tgpu.evict = "first"}
// CHECK: tgpu.global_store{{.*}} {tgpu.evict = "first"}
// PLAIN-LABEL: func.func @twice
// PLAIN-NOT: tgpu.evict
func.func @twice(%X: !tile.tensor<2, f32>, %Y: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %r = tile.grid %Y [1] : !tile.tensor<2, f32> -> index
  %z = tile.constant 0 : index
  %s = tile.constant 256 : index
  %n = tile.dim %X, 1 : !tile.tensor<2, f32>
  %init = tile.constant dense<0xFF800000> : tensor<1x1xf32>
  %t = scf.for %i = %z to %n step %s iter_args(%top = %init) -> tensor<1x1xf32> {
    %x = tile.load %X[%r, %i] : !tile.tensor<2, f32> -> tensor<1x256xf32>
    %m = tile.reduce max %x, 1 : tensor<1x256xf32> -> tensor<1x1xf32>
    %next = tile.binary max %top, %m : tensor<1x1xf32>
    scf.yield %next : tensor<1x1xf32>
  }
  scf.for %i = %z to %n step %s {
    %x = tile.load %X[%r, %i] : !tile.tensor<2, f32> -> tensor<1x256xf32>
    %b = tile.broadcast %t : tensor<1x1xf32> -> tensor<1x256xf32>
    %y = tile.binary sub %x, %b : tensor<1x256xf32>
    tile.store %y, %Y[%r, %i] : tensor<1x256xf32>, !tile.tensor<2, f32>
  }
  return
}

// What a trip writes may be what the next one reads.
// CHECK-LABEL: func.func @in_place
// CHECK-NOT: prefetch
// CHECK: scf.for
// CHECK: tgpu.global_load %arg0
// CHECK: tgpu.global_store
func.func @in_place(%X: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %r = tile.grid %X [1] : !tile.tensor<2, f32> -> index
  %z = tile.constant 0 : index
  %s = tile.constant 256 : index
  %n = tile.dim %X, 1 : !tile.tensor<2, f32>
  scf.for %i = %z to %n step %s {
    %x = tile.load %X[%r, %i] : !tile.tensor<2, f32> -> tensor<1x256xf32>
    %m = tile.reduce max %x, 1 : tensor<1x256xf32> -> tensor<1x1xf32>
    %b = tile.broadcast %m : tensor<1x1xf32> -> tensor<1x256xf32>
    %y = tile.binary sub %x, %b : tensor<1x256xf32>
    tile.store %y, %X[%r, %i] : tensor<1x256xf32>, !tile.tensor<2, f32>
  }
  return
}
