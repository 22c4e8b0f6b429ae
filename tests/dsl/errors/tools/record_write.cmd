# SPDX-License-Identifier: Apache-2.0
# A folder where the record should be.
# EXPECT: the tuning record 'r' cannot be changed: unable to open database file
# EXPECT: [record_write]
mkdir r
sectile tune prune --noisy --record r
