# SPDX-License-Identifier: Apache-2.0
# An element type that does not exist.
# EXPECT: '8xf12=zeros': 'f12' is no element type [tool_arg]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile run k.mlir --arg 8xf12=zeros
