# SPDX-License-Identifier: Apache-2.0
# An export with a row that is none.
# EXPECT: 1 rows are not taken: 'r.json' row 1: it is no object [record_rows]
printf '{"format": 1, "rows": [3]}' > r.json
sectile tune import r.json --record r.sqlite > /dev/null
