# SPDX-License-Identifier: Apache-2.0
# A matrix for a kernel that takes a vector.
# EXPECT: argument 0 is 4x4xf32=zeros, the kernel takes f32 of rank 1 [run_arg_type]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile run k.mlir --arg 4x4xf32=zeros
