# SPDX-License-Identifier: Apache-2.0
# A prune that removes nothing in particular.
# EXPECT: nothing says which rows to remove [record_prune]
sectile tune prune --record r.sqlite
