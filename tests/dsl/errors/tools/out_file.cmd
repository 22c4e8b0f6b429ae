# SPDX-License-Identifier: Apache-2.0
# A result for a directory that is not there.
# EXPECT: 'nowhere/k.txt' cannot be written: No such file or directory [out_file]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile emit k.mlir --stage=tile --out nowhere/k.txt
