# SPDX-License-Identifier: Apache-2.0
# A file that is not there; what is no file, and may have no end; a pipe that nobody writes to, which is empty.
# EXPECT: 'nowhere.mlir': No such file or directory [run_file]
# EXPECT: '/dev/full': it is a device, not a file [run_file]
# EXPECT: '/dev/zero': it is a device, not a file [run_file]
# EXPECT: 'folder': it is a directory, not a file [run_file]
# EXPECT: '-': it is longer than 67108864 bytes [run_file]
# EXPECT: 'long': it is longer than 67108864 bytes [run_file]
# EXPECT: 'pipe' holds no function with tile.kernel [run_kernel]
# EXPECT: error: '/dev/full': it is a device, not a file
# EXPECT: error: 'pipe': it is a pipe, not a file
mkdir folder
mkfifo pipe
truncate -s 1T long
sectile run /dev/full || true
sectile emit /dev/zero --stage ptx || true
sectile explain folder || true
sectile-run long || true
sectile run - < /dev/zero || true
sectile run pipe || true
sectile-opt pipe || true
sectile-opt /dev/full || true
# A pipe that somebody writes to is read.
echo "func.func @k() attributes {tile.kernel} { return }" > k.mlir
cat k.mlir > pipe & sleep 0.2; sectile run pipe
sectile run nowhere.mlir
