# SPDX-License-Identifier: Apache-2.0
# Nothing to build.
# EXPECT: there is nothing to build; kernels are column_sums, look_up, matmul, matmul_f16, scale, softmax [tune_jobs]
sectile build --load $TUNE_KERNELS --targets sm_90a
