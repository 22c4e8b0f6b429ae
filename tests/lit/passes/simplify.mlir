// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-simplify | FileCheck %s

// An extent that shrinks by the same bound in every iteration is not carried.
// CHECK-LABEL: func.func @extent
// CHECK: %[[RUNS:.*]] = tile.compare lt %{{.*}}, %arg0
// CHECK: %[[MET:.*]] = tile.binary min %{{.*}}, %arg1
// CHECK: %[[R:.*]] = tile.select %[[RUNS]], %[[MET]], %{{.*}}
// CHECK-NOT: scf.for
// CHECK: return %[[R]]
func.func @extent(%n: index, %bound: index) -> index {
  %zero = tile.constant 0 : index
  %one = tile.constant 1 : index
  %c64 = tile.constant 64 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%h = %c64) -> index {
    %m = tile.binary min %h, %bound : index
    scf.yield %m : index
  }
  return %r : index
}

// A number that every iteration loads anew, from memory that the loop does not write, is loaded before it.
// CHECK-LABEL: func.func @same_number
// CHECK: %[[ONE:.*]] = tgpu.global_gather %arg0
// CHECK: scf.for
// CHECK-NOT: tgpu.global_gather
// CHECK: tgpu.global_store %{{.*}}, %arg1
func.func @same_number(%X: !tile.tensor<1, f32> {tile.readonly}, %Y: !tile.tensor<1, f32>, %n: index) attributes {tile.kernel, tile.apart} {
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %yes = tile.constant true
  scf.for %i = %z to %n step %one {
    %x = tgpu.global_gather %X[%z] mask %yes : !tile.tensor<1, f32>, (index), i1 -> f32
    %t = tile.splat %x : f32 -> tensor<1xf32>
    tgpu.global_store %t, %Y[%i] axes [] lo[] hi[] : tensor<1xf32>, !tile.tensor<1, f32>
  }
  return
}

// One that the loop may write stays.
// CHECK-LABEL: func.func @written_number
// CHECK: scf.for
// CHECK: tgpu.global_gather %arg0
func.func @written_number(%X: !tile.tensor<1, f32>, %n: index) attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %yes = tile.constant true
  scf.for %i = %z to %n step %one {
    %x = tgpu.global_gather %X[%z] mask %yes : !tile.tensor<1, f32>, (index), i1 -> f32
    %t = tile.splat %x : f32 -> tensor<1xf32>
    tgpu.global_store %t, %X[%i] axes [] lo[] hi[] : tensor<1xf32>, !tile.tensor<1, f32>
  }
  return
}
