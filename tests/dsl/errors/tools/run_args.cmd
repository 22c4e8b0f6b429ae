# SPDX-License-Identifier: Apache-2.0
# No value for the argument of a kernel.
# EXPECT: 0 arguments given, the kernel has 1 [run_args]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile run k.mlir
