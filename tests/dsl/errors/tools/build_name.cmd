# SPDX-License-Identifier: Apache-2.0
# A name that C cannot have.
# EXPECT: '2nd' is to begin every name in C [build_name]
sectile build --load $TUNE_KERNELS --kernel scale --arg 64xf32 --arg 64xf32 --arg f32=1 --targets sm_90a --name 2nd
