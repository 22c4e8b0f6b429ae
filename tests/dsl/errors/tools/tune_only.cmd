# SPDX-License-Identifier: Apache-2.0
# Values that are none.
# EXPECT: 'BM' is no list of values [tune_only]
# EXPECT: 'BM=64,x' is no list of values [tune_only]
sectile tune --device interpreter --only BM || true
sectile tune --device interpreter --only BM=64,x
