# SPDX-License-Identifier: Apache-2.0
# A file that is not there.
# EXPECT: 'nowhere.mlir': No such file or directory [run_file]
sectile run nowhere.mlir
