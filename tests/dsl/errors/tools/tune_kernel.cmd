# SPDX-License-Identifier: Apache-2.0
# A kernel that no library makes known.
# EXPECT: the command line: 'nothing' is no kernel; kernels are none [tune_kernel]
sectile tune --device interpreter --kernel nothing
