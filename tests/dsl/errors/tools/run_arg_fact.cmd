# SPDX-License-Identifier: Apache-2.0
# Arguments that are not what the file says of them: its code would rely on it. On every device, and when a stage is printed.
# EXPECT: argument 0, 24xf32=zeros, has 24 elements along axis 0, and the file says tile.dim_div = [16] [run_arg_fact]
# EXPECT: argument 0, 64xf32=zeros, has 64 elements along axis 0, and the file says tile.dim_max = [32] [run_arg_fact]
# EXPECT: argument 0, 2x3xf32=zeros, has stride 3 along axis 0, and the file says tile.stride_div = [4, 1] [run_arg_fact]
# EXPECT: argument 0, 2x4xf32=zeros, has stride 4 along axis 0, and the file says tile.stride_rem = [1, 1] [run_arg_fact]
# EXPECT: argument 0, 2x4xf32@10=zeros, has stride 2 along axis 1, and the file says tile.unit_stride = 1 [run_arg_fact]
# EXPECT: argument 0, 8xf32=zeros, lies at a multiple of 256 bytes, and the file says tile.align = 4096 [run_arg_fact]
# EXPECT: argument 0, 0x3000000000xf32=zeros, has lengths or bytes of 2^31 or more, and the file says tile.small = unit [run_arg_fact]
kernel() { echo "func.func @k(%x: !tile.tensor<$1, f32> {$2}) attributes {tile.kernel} { return }" > k.mlir; }
kernel 1 "tile.align = 16 : i64, tile.dim_div = array<i64: 16>"
sectile run k.mlir --arg 32xf32=value:1 > right.txt
grep -q "arg0 32 f32" right.txt
sectile run k.mlir --device executor --arg 24xf32=zeros || true
kernel 1 "tile.dim_max = array<i64: 32>"
sectile run k.mlir --arg 64xf32=zeros || true
kernel 2 "tile.stride_div = array<i64: 4, 1>"
sectile emit k.mlir --stage tgpu --arg 2x3xf32=zeros || true
kernel 2 "tile.stride_rem = array<i64: 1, 1>"
sectile explain k.mlir --arg 2x4xf32=zeros || true
kernel 2 "tile.unit_stride = 1 : i64"
sectile run k.mlir --device executor --arg 2x4xf32@10=zeros || true
kernel 1 "tile.align = 4096 : i64"
sectile run k.mlir --device executor --arg 8xf32=zeros || true
kernel 2 "tile.small"
sectile run k.mlir --device executor --arg 0x3000000000xf32=zeros
