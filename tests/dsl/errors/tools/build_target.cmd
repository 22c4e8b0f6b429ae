# SPDX-License-Identifier: Apache-2.0
# No target, and one that is none.
# EXPECT: no target is named [build_target]
# EXPECT: 'sm_1' is no target; targets are sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a [build_target]
sectile build --load $TUNE_KERNELS --kernel scale --arg 64xf32 --arg 64xf32 --arg f32=1 || true
sectile build --load $TUNE_KERNELS --kernel scale --arg 64xf32 --arg 64xf32 --arg f32=1 --targets sm_90a,sm_1
