# SPDX-License-Identifier: Apache-2.0
# Nothing to tune, and files of jobs that are not there or no files.
# EXPECT: 'none.txt': No such file or directory [tune_jobs]
# EXPECT: '/dev/zero': it is a device, not a file [tune_jobs]
# EXPECT: '.': it is a directory, not a file [tune_jobs]
# EXPECT: there is nothing to tune; kernels are none [tune_jobs]
sectile tune --device interpreter --jobs none.txt || true
sectile tune --device interpreter --jobs /dev/zero || true
sectile build --jobs . --name x --targets sm_90a --out x || true
sectile tune --device interpreter
