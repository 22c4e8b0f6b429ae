// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-resolve-tails --split-input-file --verify-diagnostics

// An op of another dialect on a tile whose last lanes may be missing.
func.func @resolve_tails_c1(%x: !tile.tensor<1, f32>, %y: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %y [64] : !tile.tensor<1, f32> -> index
  %a = tile.load %x[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
  // expected-error @+1 {{has no meaning for lanes that do not exist [resolve_tails_c1]; use ops of the tile dialect on tiles}}
  %b = arith.addf %a, %a : tensor<64xf32>
  tile.store %b, %y[%i] : tensor<64xf32>, !tile.tensor<1, f32>
  return
}
