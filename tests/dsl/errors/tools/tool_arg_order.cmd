# SPDX-License-Identifier: Apache-2.0
# Axes in memory that are not those of the tensor.
# EXPECT: '8x4xf32@02=zeros': '02' is no order of 2 axes [tool_arg]
printf "func.func @k(%%x: !tile.tensor<2, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile run k.mlir --arg 8x4xf32@02=zeros
