// SPDX-License-Identifier: Apache-2.0
// What passes leave slower says which pass, where, and why; layouts say what they cost.
// RUN: sectile-opt %s --sectile-lower --split-input-file | FileCheck %s
// The remarks are there after printing and parsing.
// RUN: sectile-opt %s --sectile-lower --split-input-file | sectile-opt --split-input-file | FileCheck %s

// Exact products of f32.
// CHECK: #[[EXACT:loc[0-9]*]] = loc("{{.*}}":[[#@LINE+10]]:8)
// CHECK: func.func @exact
// CHECK-SAME: tgpu.layout_cost = [{{.*}}op = "global_load"{{.*}}op = "global_store"
// CHECK-SAME: tgpu.remarks = [{at = #[[EXACT]], pass = "SelectMma", text = "f32 operands are exact products, which no tensor core makes (MmaPolicy::tf32 allows rounding): multiply-adds of single elements, no tensor core"}]
func.func @exact(%A: !tile.tensor<2, f32> {tile.readonly}, %B: !tile.tensor<2, f32> {tile.readonly}, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %acc = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !tile.tensor<2, f32> -> tensor<64x32xf32>
  %b = tile.load %B[%z, %n] : !tile.tensor<2, f32> -> tensor<32x64xf32>
  %p = tile.mma exact %a, %b, %acc : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>
  tile.store %p, %C[%m, %n] : tensor<64x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// Nothing is known of the arguments: threads load and store.
// CHECK: func.func @unknown
// CHECK-SAME: pass = "StageOperands", text = "operand A is loaded by threads: argument 0 starts at a multiple of 1 bytes, a tensor map at one of 16"
// CHECK-SAME: pass = "StageOperands", text = "operand B is loaded by threads: argument 1 starts at a multiple of 1 bytes, a tensor map at one of 16"
// CHECK-SAME: pass = "StoreBoxes", text = "threads store the tile: argument 2 starts at a multiple of 1 bytes, a tensor map at one of 16"
func.func @unknown(%A: !tile.tensor<2, bf16> {tile.readonly}, %B: !tile.tensor<2, bf16> {tile.readonly}, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %acc = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %b = tile.load %B[%z, %n] : !tile.tensor<2, bf16> -> tensor<32x64xbf16>
  %p = tile.mma exact %a, %b, %acc : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32>
  tile.store %p, %C[%m, %n] : tensor<64x64xf32>, !tile.tensor<2, f32>
  return
}

// -----

// A shape that no instruction divides.
// CHECK: func.func @odd
// CHECK-SAME: pass = "SelectMma", text = "a tile of 64 x 12 x 32 is no whole number of instructions for bf16 x bf16 into f32: multiply-adds of single elements, no tensor core"
func.func @odd(%A: !tile.tensor<2, bf16> {tile.readonly}, %B: !tile.tensor<2, bf16> {tile.readonly}, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 12] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %acc = tile.constant dense<0.0> : tensor<64x12xf32>
  %a = tile.load %A[%m, %z] : !tile.tensor<2, bf16> -> tensor<64x32xbf16>
  %b = tile.load %B[%z, %n] : !tile.tensor<2, bf16> -> tensor<32x12xbf16>
  %p = tile.mma exact %a, %b, %acc : tensor<64x32xbf16>, tensor<32x12xbf16>, tensor<64x12xf32>
  tile.store %p, %C[%m, %n] : tensor<64x12xf32>, !tile.tensor<2, f32>
  return
}

// -----

// More terms of fp8 than tensor cores of warpgroups add up exactly enough.
// CHECK: func.func @fp8
// CHECK-SAME: pass = "SelectMma", text = "tensor cores keep few bits of a sum of e4m3 x e4m3 into f32, whose products of warpgroups have at most 128 terms in one tile, not 256: mma.sync on warps, operands in registers"
func.func @fp8(%A: !tile.tensor<2, f8E4M3FN> {tile.readonly}, %B: !tile.tensor<2, f8E4M3FN> {tile.readonly}, %C: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %C [64, 64] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant 0 : index
  %acc = tile.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %A[%m, %z] : !tile.tensor<2, f8E4M3FN> -> tensor<64x256xf8E4M3FN>
  %b = tile.load %B[%z, %n] : !tile.tensor<2, f8E4M3FN> -> tensor<256x64xf8E4M3FN>
  %p = tile.mma exact %a, %b, %acc : tensor<64x256xf8E4M3FN>, tensor<256x64xf8E4M3FN>, tensor<64x64xf32>
  tile.store %p, %C[%m, %n] : tensor<64x64xf32>, !tile.tensor<2, f32>
  return
}
