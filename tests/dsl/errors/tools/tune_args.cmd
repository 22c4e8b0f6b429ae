# SPDX-License-Identifier: Apache-2.0
# Arguments that the kernel does not take.
# EXPECT: the command line: 1 arguments given, the kernel has 3 [tune_args]
# EXPECT: the command line: argument 0 is 8x8xf32, the kernel takes f32 of rank 1 [tune_args]
sectile tune --device interpreter --load "$TUNE_KERNELS" --kernel scale --arg 8xf32 || true
sectile tune --device interpreter --load "$TUNE_KERNELS" --kernel scale --arg 8x8xf32 --arg 8xf32 --arg f32=1
