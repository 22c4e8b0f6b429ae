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
