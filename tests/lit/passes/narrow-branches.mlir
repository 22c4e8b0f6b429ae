// SPDX-License-Identifier: Apache-2.0
// What a branch gives and only a conversion uses is narrow on both sides; what is there before the branch becomes narrow there.
// RUN: sectile-opt %s --sectile-narrow-branches | FileCheck %s

// CHECK-LABEL: func.func @usual
// CHECK-SAME: (%[[RARE:.*]]: i1, %[[X:.*]]: tensor<64x32xf32>)
// CHECK: %[[HALF:.*]] = tile.cast %[[X]] : tensor<64x32xf32> -> tensor<64x32xbf16>
// CHECK-NEXT: %[[R:.*]]:2 = scf.if %[[RARE]] -> (tensor<64x32xbf16>, tensor<64x32xf32>) {
// CHECK-NEXT:   %[[Y:.*]] = tile.binary mul
// CHECK-NEXT:   %[[YH:.*]] = tile.cast %[[Y]]
// CHECK-NEXT:   scf.yield %[[YH]], %[[Y]]
// CHECK-NEXT: } else {
// CHECK-NEXT:   scf.yield %[[HALF]], %[[X]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
func.func @usual(%rare: i1, %x: tensor<64x32xf32>) -> (tensor<64x32xbf16>, tensor<64x32xf32>) {
  %r:2 = scf.if %rare -> (tensor<64x32xf32>, tensor<64x32xf32>) {
    %y = tile.binary mul %x, %x : tensor<64x32xf32>
    scf.yield %y, %y : tensor<64x32xf32>, tensor<64x32xf32>
  } else {
    scf.yield %x, %x : tensor<64x32xf32>, tensor<64x32xf32>
  }
  %h = tile.cast %r#0 : tensor<64x32xf32> -> tensor<64x32xbf16>
  return %h, %r#1 : tensor<64x32xbf16>, tensor<64x32xf32>
}

// One that something else uses too, and one that becomes wider, stay.
// CHECK-LABEL: func.func @others
// CHECK: scf.if %{{.*}} -> (tensor<64x32xf32>, tensor<64x32xbf16>)
// CHECK: tile.cast
// CHECK: tile.cast
func.func @others(%rare: i1, %x: tensor<64x32xf32>, %h: tensor<64x32xbf16>) -> (tensor<64x32xbf16>, tensor<64x32xf32>, tensor<64x32xf32>) {
  %r:2 = scf.if %rare -> (tensor<64x32xf32>, tensor<64x32xbf16>) {
    %y = tile.binary mul %x, %x : tensor<64x32xf32>
    %hh = tile.binary add %h, %h : tensor<64x32xbf16>
    scf.yield %y, %hh : tensor<64x32xf32>, tensor<64x32xbf16>
  } else {
    scf.yield %x, %h : tensor<64x32xf32>, tensor<64x32xbf16>
  }
  %n = tile.cast %r#0 : tensor<64x32xf32> -> tensor<64x32xbf16>
  %w = tile.cast %r#1 : tensor<64x32xbf16> -> tensor<64x32xf32>
  return %n, %w, %r#0 : tensor<64x32xbf16>, tensor<64x32xf32>, tensor<64x32xf32>
}
