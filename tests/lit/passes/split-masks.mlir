// SPDX-License-Identifier: Apache-2.0
// Iterations in which masks hold everywhere run without them.
// RUN: sectile-opt %s --sectile-split-masks --sectile-simplify -cse | FileCheck %s

!T = !tile.tensor<2, bf16>

// Keys up to the query: whole blocks first, then those on the diagonal.
// CHECK-LABEL: func.func @causal
// CHECK: %[[N:.*]] = tile.dim
// CHECK: %[[Q:.*]]:2 = tile.grid
// The last counter with a whole block: the least query less the largest key in a block.
// CHECK: %[[LAST:.*]] = tile.binary add %{{.*}}, %[[Q]]#0 : index
// CHECK: %[[MOST:.*]] = tile.binary min %[[N]], %[[LAST]]
// CHECK: tile.binary mul
// CHECK: %[[END:.*]] = tile.binary max
// CHECK: %[[STOP:.*]] = tile.binary min %[[END]], %[[N]]
// CHECK: %[[R:.*]] = scf.for {{.*}} to %[[STOP]] step
// CHECK-NOT: tile.select
// CHECK: %[[R2:.*]] = scf.for %{{.*}} = %[[END]] to %[[N]] step {{.*}} iter_args(%{{.*}} = %[[R]])
// CHECK: tile.select
// CHECK: return %[[R2]]
func.func @causal(%a: tensor<64x64xbf16>, %K: !T {tile.small}) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %q, %other = tile.grid %K [64, 64] : !T -> index, index
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %rows = tile.iota 0 : tensor<64x64xindex>
    %columns = tile.iota 1 : tensor<64x64xindex>
    %qs = tile.splat %q : index -> tensor<64x64xindex>
    %js = tile.splat %j : index -> tensor<64x64xindex>
    %row = tile.binary add %rows, %qs : tensor<64x64xindex>
    %key = tile.binary add %columns, %js : tensor<64x64xindex>
    %keep = tile.compare le %key, %row : tensor<64x64xindex> -> tensor<64x64xi1>
    %t = tile.select %keep, %s, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// Both ends of a window: three loops, of which the one in the middle needs no masks.
// CHECK-LABEL: func.func @window
// CHECK: scf.for
// CHECK: tile.select
// CHECK: scf.for
// CHECK-NOT: tile.select
// CHECK: scf.for
// CHECK: tile.select
// CHECK: return
func.func @window(%a: tensor<64x64xbf16>, %K: !T {tile.small}) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %q, %other = tile.grid %K [64, 64] : !T -> index, index
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %rows = tile.iota 0 : tensor<64x64xindex>
    %columns = tile.iota 1 : tensor<64x64xindex>
    %qs = tile.splat %q : index -> tensor<64x64xindex>
    %js = tile.splat %j : index -> tensor<64x64xindex>
    %row = tile.binary add %rows, %qs : tensor<64x64xindex>
    %key = tile.binary add %columns, %js : tensor<64x64xindex>
    %wide = tile.constant dense<200> : tensor<64x64xindex>
    %first = tile.binary sub %row, %wide : tensor<64x64xindex>
    %near = tile.compare gt %key, %first : tensor<64x64xindex> -> tensor<64x64xi1>
    %past = tile.compare le %key, %row : tensor<64x64xindex> -> tensor<64x64xi1>
    %keep = tile.binary bitand %near, %past : tensor<64x64xi1>
    %t = tile.select %keep, %s, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// The end of a tensor, as ResolveTails writes it, in a loop of products.
// CHECK-LABEL: func.func @tail
// CHECK: scf.for
// CHECK-NOT: tgpu.fill_outside
// CHECK: scf.for
// CHECK: tgpu.fill_outside
func.func @tail(%a: tensor<64x64xbf16>, %K: !T {tile.small}) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %left = tile.binary sub %n, %j : index
    %t = tgpu.fill_outside %s axes [1] lo[%z] hi[%left] fill 0.0 : f32 : tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// Sums of numbers that may be as large as they like can wrap.
// CHECK-LABEL: func.func @unbounded
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @unbounded(%a: tensor<64x64xbf16>, %q: index, %n: index) -> tensor<64x64xf32> attributes {tile.kernel} {
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %rows = tile.iota 0 : tensor<64x64xindex>
    %columns = tile.iota 1 : tensor<64x64xindex>
    %qs = tile.splat %q : index -> tensor<64x64xindex>
    %js = tile.splat %j : index -> tensor<64x64xindex>
    %row = tile.binary add %rows, %qs : tensor<64x64xindex>
    %key = tile.binary add %columns, %js : tensor<64x64xindex>
    %keep = tile.compare le %key, %row : tensor<64x64xindex> -> tensor<64x64xi1>
    %t = tile.select %keep, %s, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// Keys from the last block that a tile of queries sees to the first, of which the first trip was taken out of the loop: no
// other block has keys behind the first query, and none ends behind the tensor.
// CHECK-LABEL: func.func @backwards
// CHECK: scf.for
// CHECK-NOT: tile.select
// CHECK-NOT: tgpu.fill_outside
// CHECK-NOT: scf.for
// CHECK: return
func.func @backwards(%a: tensor<64x64xbf16>, %K: !T {tile.small}) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %q, %other = tile.grid %K [64, 64] : !T -> index, index
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %behind = tile.binary add %q, %step : index
  %end = tile.binary min %n, %behind : index
  %last = tile.binary sub %end, %one : index
  %block = tile.binary floordiv %last, %step : index
  %first = tile.binary mul %block, %step : index
  %trips = tile.binary add %first, %one : index
  %r = scf.for %i = %step to %trips step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %j = tile.binary sub %first, %i : index
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %left = tile.binary sub %n, %j : index
    %f = tgpu.fill_outside %s axes [1] lo[%z] hi[%left] fill 0.0 : f32 : tensor<64x64xf32>
    %rows = tile.iota 0 : tensor<64x64xindex>
    %columns = tile.iota 1 : tensor<64x64xindex>
    %qs = tile.splat %q : index -> tensor<64x64xindex>
    %js = tile.splat %j : index -> tensor<64x64xindex>
    %row = tile.binary add %rows, %qs : tensor<64x64xindex>
    %key = tile.binary add %columns, %js : tensor<64x64xindex>
    %keep = tile.compare le %key, %row : tensor<64x64xindex> -> tensor<64x64xi1>
    %t = tile.select %keep, %f, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// With all blocks of keys in the loop, those on the diagonal need the mask.
// CHECK-LABEL: func.func @backwards_from_the_diagonal
// CHECK: scf.for
// CHECK: tile.select
// CHECK: scf.for
// CHECK-NOT: tile.select
// CHECK: return
func.func @backwards_from_the_diagonal(%a: tensor<64x64xbf16>, %K: !T {tile.small}) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %q, %other = tile.grid %K [64, 64] : !T -> index, index
  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %behind = tile.binary add %q, %step : index
  %end = tile.binary min %n, %behind : index
  %last = tile.binary sub %end, %one : index
  %block = tile.binary floordiv %last, %step : index
  %first = tile.binary mul %block, %step : index
  %trips = tile.binary add %first, %one : index
  %r = scf.for %i = %z to %trips step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %j = tile.binary sub %first, %i : index
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %rows = tile.iota 0 : tensor<64x64xindex>
    %columns = tile.iota 1 : tensor<64x64xindex>
    %qs = tile.splat %q : index -> tensor<64x64xindex>
    %js = tile.splat %j : index -> tensor<64x64xindex>
    %row = tile.binary add %rows, %qs : tensor<64x64xindex>
    %key = tile.binary add %columns, %js : tensor<64x64xindex>
    %keep = tile.compare le %key, %row : tensor<64x64xindex> -> tensor<64x64xi1>
    %t = tile.select %keep, %s, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}

// A mask of any kind, and two numbers between which it is known to hold.
// CHECK-LABEL: func.func @known_blocks
// CHECK: scf.for
// CHECK: tile.select
// CHECK: scf.for
// CHECK-NOT: tile.select
// CHECK: scf.for
// CHECK: tile.select
// CHECK: return
func.func @known_blocks(%a: tensor<64x64xbf16>, %K: !T {tile.small}, %L: !T {tile.small}, %mask: tensor<64x64xi1>) -> tensor<64x64xf32> attributes {tile.kernel} {
  %n = tile.dim %K, 0 : !T
  %lo = tile.dim %L, 0 : !T
  %hi = tile.dim %L, 1 : !T
  %z = tile.constant 0 : index
  %step = tile.constant 64 : index
  %zero = tile.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %j = %z to %n step %step iter_args(%o = %zero) -> tensor<64x64xf32> {
    %s = tile.mma exact %a, %a, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %end = tile.binary add %j, %step : index
    %begins = tile.compare ge %j, %lo : index -> i1
    %ends = tile.compare le %end, %hi : index -> i1
    %both = tile.binary bitand %begins, %ends : i1
    %all = tile.splat %both : i1 -> tensor<64x64xi1>
    %keep = tile.binary bitor %mask, %all : tensor<64x64xi1>
    %t = tile.select %keep, %s, %zero : tensor<64x64xi1>, tensor<64x64xf32>
    %o1 = tile.binary add %o, %t : tensor<64x64xf32>
    scf.yield %o1 : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}
