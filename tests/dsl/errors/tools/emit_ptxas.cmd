# SPDX-License-Identifier: Apache-2.0
# A cubin without ptxas.
# EXPECT: no ptxas was found to assemble a cubin [emit_ptxas]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
SECTILE_PTXAS=none sectile emit k.mlir --stage=cubin
