# SPDX-License-Identifier: Apache-2.0
# A GPU without the target that it is for.
# EXPECT: 'NVIDIA H200' names no GPU for a target [build_gpu]
sectile build --load $TUNE_KERNELS --kernel scale --arg 64xf32 --arg 64xf32 --arg f32=1 --targets sm_90a --gpu 'NVIDIA H200'
