# SPDX-License-Identifier: Apache-2.0
# A module without a kernel.
# EXPECT: 'k.mlir' holds no function with tile.kernel [run_kernel]
printf "func.func @f() { return }\n" > k.mlir
sectile run k.mlir
