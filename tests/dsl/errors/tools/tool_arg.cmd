# SPDX-License-Identifier: Apache-2.0
# A number that is none.
# EXPECT: 'f32=one': 'one' is not a number [tool_arg]
printf "func.func @k(%%x: !tile.tensor<1, f32>) attributes {tile.kernel} { return }\\n" > k.mlir
sectile run k.mlir --arg f32=one
