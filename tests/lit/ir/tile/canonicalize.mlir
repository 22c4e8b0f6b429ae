// SPDX-License-Identifier: Apache-2.0
// Constants fold by the meaning of ir/base/Scalar.h; no fold changes which lanes exist.
// RUN: sectile-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @integers
func.func @integers() -> (i8, ui8, i32, i32, i32, i32, i32, i64) {
  %c127 = tile.constant 127 : i8
  %c1 = tile.constant 1 : i8
  %u200 = tile.constant 200 : ui8
  %u100 = tile.constant 100 : ui8
  %m7 = tile.constant -7 : i32
  %c2 = tile.constant 2 : i32
  %c0 = tile.constant 0 : i32
  %c40 = tile.constant 40 : i32
  %big = tile.constant 0x100000000 : i64
  // Wraps modulo 2^bits.
  // CHECK-DAG: %[[R0:.*]] = tile.constant -128 : i8
  %r0 = tile.binary add %c127, %c1 : i8
  // CHECK-DAG: %[[R1:.*]] = tile.constant 44 : ui8
  %r1 = tile.binary add %u200, %u100 : ui8
  // Toward zero and down.
  // CHECK-DAG: %[[R2:.*]] = tile.constant -3 : i32
  %r2 = tile.binary div %m7, %c2 : i32
  // CHECK-DAG: %[[R3:.*]] = tile.constant -4 : i32
  %r3 = tile.binary floordiv %m7, %c2 : i32
  // CHECK-DAG: %[[R4:.*]] = tile.constant 0 : i32
  %r4 = tile.binary div %m7, %c0 : i32
  // A shift past the width gives the sign.
  // CHECK-DAG: %[[R5:.*]] = tile.constant -1 : i32
  %r5 = tile.binary shr %m7, %c40 : i32
  // CHECK-DAG: %[[R6:.*]] = tile.constant 6 : i32
  %r6 = tile.unary bitnot %m7 : i32 -> i32
  // CHECK-DAG: %[[R7:.*]] = tile.constant 8589934592 : i64
  %r7 = tile.binary add %big, %big : i64
  // CHECK: return %[[R0]], %[[R1]], %[[R2]], %[[R3]], %[[R4]], %[[R5]], %[[R6]], %[[R7]]
  return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7 : i8, ui8, i32, i32, i32, i32, i32, i64
}

// CHECK-LABEL: func.func @floats
func.func @floats() -> (bf16, f32, f32, f32, f64, f32, i1, f32) {
  %b256 = tile.constant 256.0 : bf16
  %b1 = tile.constant 1.0 : bf16
  %nan = tile.constant 0x7FC00000 : f32
  %one = tile.constant 1.0 : f32
  %mhalf = tile.constant -2.5 : f32
  %four = tile.constant 4.0 : f64
  // 257 lies between 256 and 258: to even.
  // CHECK-DAG: %[[R0:.*]] = tile.constant 2.560000e+02 : bf16
  %r0 = tile.binary add %b256, %b1 : bf16
  // CHECK-DAG: %[[R1:.*]] = tile.constant 0x7FC00000 : f32
  %r1 = tile.binary max %nan, %one : f32
  // CHECK-DAG: %[[R2:.*]] = tile.constant 1.000000e+00 : f32
  %r2 = tile.binary maxnum %nan, %one : f32
  // CHECK-DAG: %[[R3:.*]] = tile.constant -2.000000e+00 : f32
  %r3 = tile.unary round %mhalf : f32 -> f32
  // CHECK-DAG: %[[R4:.*]] = tile.constant 2.000000e+00 : f64
  %r4 = tile.unary sqrt %four : f64 -> f64
  // CHECK-DAG: %[[R5:.*]] = tile.constant 2.500000e+00 : f32
  %r5 = tile.unary abs %mhalf : f32 -> f32
  // CHECK-DAG: %[[R6:.*]] = tile.constant true
  %r6 = tile.unary isnan %nan : f32 -> i1
  // CHECK-DAG: %[[R7:.*]] = tile.constant -5.000000e-01 : f32
  %r7 = tile.binary rem %mhalf, %one : f32
  // CHECK: return %[[R0]], %[[R1]], %[[R2]], %[[R3]], %[[R4]], %[[R5]], %[[R6]], %[[R7]]
  return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7 : bf16, f32, f32, f32, f64, f32, i1, f32
}

// CHECK-LABEL: func.func @compares
func.func @compares() -> (i1, i1, i1, i1) {
  %m1 = tile.constant -1 : i8
  %c1 = tile.constant 1 : i8
  %u255 = tile.constant 255 : ui8
  %u1 = tile.constant 1 : ui8
  %nan = tile.constant 0x7E00 : f16
  // CHECK-DAG: %[[T:.*]] = tile.constant true
  // CHECK-DAG: %[[F:.*]] = tile.constant false
  %r0 = tile.compare lt %m1, %c1 : i8 -> i1
  %r1 = tile.compare lt %u255, %u1 : ui8 -> i1
  %r2 = tile.compare eq %nan, %nan : f16 -> i1
  %r3 = tile.compare ne %nan, %nan : f16 -> i1
  // CHECK: return %[[T]], %[[F]], %[[F]], %[[T]]
  return %r0, %r1, %r2, %r3 : i1, i1, i1, i1
}

// CHECK-LABEL: func.func @casts_of_constants
func.func @casts_of_constants() -> (f8E4M3FN, i8, ui8, i1, i32, bf16) {
  %big = tile.constant 1000.0 : f32
  %i300 = tile.constant 300 : i32
  %m1 = tile.constant -1.0 : f32
  %nan = tile.constant 0x7FC00000 : f32
  %t = tile.constant true
  // CHECK-DAG: %[[R0:.*]] = tile.constant 4.480000e+02 : f8E4M3FN
  %r0 = tile.cast %big : f32 -> f8E4M3FN
  // CHECK-DAG: %[[R1:.*]] = tile.constant 44 : i8
  %r1 = tile.cast %i300 : i32 -> i8
  // CHECK-DAG: %[[R2:.*]] = tile.constant 0 : ui8
  %r2 = tile.cast %m1 : f32 -> ui8
  // CHECK-DAG: %[[R3:.*]] = tile.constant true
  %r3 = tile.cast %nan : f32 -> i1
  // CHECK-DAG: %[[R4:.*]] = tile.constant 1 : i32
  %r4 = tile.cast %t : i1 -> i32
  // CHECK-DAG: %[[R5:.*]] = tile.constant 1.000000e+00 : bf16
  %r5 = tile.cast %t : i1 -> bf16
  // CHECK: return %[[R0]], %[[R1]], %[[R2]], %[[R3]], %[[R4]], %[[R5]]
  return %r0, %r1, %r2, %r3, %r4, %r5 : f8E4M3FN, i8, ui8, i1, i32, bf16
}

// CHECK-LABEL: func.func @tiles
// CHECK-NEXT: %[[R:.*]] = tile.constant dense<6.000000e+00> : tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
func.func @tiles() -> tensor<4x8xf32> {
  %two = tile.constant 2.0 : f32
  %three = tile.constant dense<3.0> : tensor<8x4xf32>
  %s = tile.splat %two : f32 -> tensor<4xf32>
  %r = tile.reshape %s : tensor<4xf32> -> tensor<4x1xf32>
  %b = tile.broadcast %r : tensor<4x1xf32> -> tensor<4x8xf32>
  %p = tile.permute %three [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %m = tile.binary mul %b, %p : tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @identities
// CHECK-SAME: %[[X:.*]]: tensor<8xi32>, %[[Y:.*]]: tensor<8xf32>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @identities(%x: tensor<8xi32>, %y: tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>) {
  %zero = tile.constant dense<0> : tensor<8xi32>
  %one = tile.constant dense<1> : tensor<8xi32>
  %ones = tile.constant dense<-1> : tensor<8xi32>
  %fone = tile.constant dense<1.0> : tensor<8xf32>
  %a = tile.binary add %zero, %x : tensor<8xi32>
  %b = tile.binary sub %a, %zero : tensor<8xi32>
  %c = tile.binary mul %b, %one : tensor<8xi32>
  %d = tile.binary bitand %c, %ones : tensor<8xi32>
  %e = tile.binary shl %d, %zero : tensor<8xi32>
  %f = tile.binary floordiv %e, %one : tensor<8xi32>
  %g = tile.reshape %f : tensor<8xi32> -> tensor<8xi32>
  %h = tile.broadcast %g : tensor<8xi32> -> tensor<8xi32>
  %i = tile.permute %h [0] : tensor<8xi32> -> tensor<8xi32>
  %j = tile.cast %i : tensor<8xi32> -> tensor<8xi32>
  %u = tile.binary mul %fone, %y : tensor<8xf32>
  %v = tile.binary div %u, %fone : tensor<8xf32>
  return %j, %v : tensor<8xi32>, tensor<8xf32>
}

// -0 + 0 is +0, and an FP8 product with 1 saturates infinity: no identities.
// CHECK-LABEL: func.func @no_identities
// CHECK: tile.binary add
// CHECK: tile.binary mul
// CHECK: tile.binary sub
func.func @no_identities(%x: f32, %y: f8E5M2, %n: i32) -> (f32, f8E5M2, i32) {
  %zero = tile.constant 0.0 : f32
  %one = tile.constant 1.0 : f8E5M2
  %nil = tile.constant 0 : i32
  %a = tile.binary add %x, %zero : f32
  %b = tile.binary mul %y, %one : f8E5M2
  %c = tile.binary sub %nil, %n : i32
  return %a, %b, %c : f32, f8E5M2, i32
}

// CHECK-LABEL: func.func @selects
// CHECK-SAME: %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @selects(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %t = tile.constant true
  %f = tile.constant dense<false> : tensor<8xi1>
  %x = tile.select %t, %a, %b : i1, tensor<8xf32>
  %y = tile.select %f, %a, %b : tensor<8xi1>, tensor<8xf32>
  return %x, %y : tensor<8xf32>, tensor<8xf32>
}

// The lanes of the dropped side may be missing: the choice of a constant must stay.
// CHECK-LABEL: func.func @select_keeps_lanes
// CHECK: tile.select
func.func @select_keeps_lanes(%a: tensor<8xf32>, %m: tensor<8xi1>) -> tensor<8xf32> {
  %t = tile.constant true
  %k = tile.keep %m, %a : tensor<8xi1>, tensor<8xf32>
  %x = tile.select %t, %a, %k : i1, tensor<8xf32>
  return %x : tensor<8xf32>
}

// CHECK-LABEL: func.func @casts
// CHECK-SAME: %[[X:.*]]: bf16, %[[I:.*]]: i64, %[[F:.*]]: f32, %[[E:.*]]: f8E5M2, %[[N:.*]]: i16
func.func @casts(%x: bf16, %i: i64, %f: f32, %e: f8E5M2, %n: i16) -> (bf16, f16, i8, f32, f8E5M2, i8) {
  // Exact there and back.
  %a = tile.cast %x : bf16 -> f32
  %r0 = tile.cast %a : f32 -> bf16
  // CHECK-DAG: %[[R1:.*]] = tile.cast %[[X]] : bf16 -> f16
  %r1 = tile.cast %a : f32 -> f16
  // CHECK-DAG: %[[R2:.*]] = tile.cast %[[I]] : i64 -> i8
  %b = tile.cast %i : i64 -> i32
  %r2 = tile.cast %b : i32 -> i8
  // Rounds on the way: stays.
  // CHECK-DAG: %[[C:.*]] = tile.cast %[[F]] : f32 -> bf16
  // CHECK-DAG: %[[R3:.*]] = tile.cast %[[C]] : bf16 -> f32
  %c = tile.cast %f : f32 -> bf16
  %r3 = tile.cast %c : bf16 -> f32
  // Saturates an infinity on the way back: stays.
  // CHECK-DAG: %[[D:.*]] = tile.cast %[[E]] : f8E5M2 -> f32
  // CHECK-DAG: %[[R4:.*]] = tile.cast %[[D]] : f32 -> f8E5M2
  %d = tile.cast %e : f8E5M2 -> f32
  %r4 = tile.cast %d : f32 -> f8E5M2
  // Saturates from the float, would wrap from the integer: stays.
  // CHECK-DAG: %[[G:.*]] = tile.cast %[[N]] : i16 -> f32
  // CHECK-DAG: %[[R5:.*]] = tile.cast %[[G]] : f32 -> i8
  %g = tile.cast %n : i16 -> f32
  %r5 = tile.cast %g : f32 -> i8
  // CHECK: return %[[X]], %[[R1]], %[[R2]], %[[R3]], %[[R4]], %[[R5]]
  return %r0, %r1, %r2, %r3, %r4, %r5 : bf16, f16, i8, f32, f8E5M2, i8
}

// CHECK-LABEL: func.func @permutes
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[P:.*]] = tile.permute %[[X]] [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT: return %[[P]], %[[X]]
func.func @permutes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %a = tile.permute %x [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %b = tile.permute %a [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  %c = tile.permute %b [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  return %b, %c : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// Reads that nobody uses go away, writes stay.
// CHECK-LABEL: func.func @effects
// CHECK-NEXT: tile.constant
// CHECK-NEXT: tile.store
// CHECK-NEXT: return
func.func @effects(%x: !tile.tensor<1, f32>, %t: tensor<8xf32>) {
  %zero = tile.constant 0 : index
  %unused = tile.load %x[%zero] : !tile.tensor<1, f32> -> tensor<8xf32>
  tile.store %t, %x[%zero] : tensor<8xf32>, !tile.tensor<1, f32>
  return
}
