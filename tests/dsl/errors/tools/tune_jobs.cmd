# SPDX-License-Identifier: Apache-2.0
# Nothing to tune, and a file of jobs that is not there.
# EXPECT: 'none.txt': No such file or directory [tune_jobs]
# EXPECT: there is nothing to tune; kernels are none [tune_jobs]
sectile tune --device interpreter --jobs none.txt || true
sectile tune --device interpreter
