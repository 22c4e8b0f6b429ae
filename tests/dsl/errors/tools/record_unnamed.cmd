# SPDX-License-Identifier: Apache-2.0
# No record at all.
# EXPECT: no tuning record can be named: SECTILE_TUNE_RECORD is none, or neither it nor SECTILE_CACHE_DIR nor HOME is set [record_unnamed]
SECTILE_TUNE_RECORD=none sectile tune show
