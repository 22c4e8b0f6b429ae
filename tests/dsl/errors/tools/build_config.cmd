# SPDX-License-Identifier: Apache-2.0
# A configuration that is none.
# EXPECT: 'B 64' is no configuration [build_config]
sectile build --load $TUNE_KERNELS --kernel scale --arg 64xf32 --arg 64xf32 --arg f32=1 --targets sm_90a --config 'B 64'
