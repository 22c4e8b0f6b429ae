# SPDX-License-Identifier: Apache-2.0
# A file that is no export.
# EXPECT: 'r.json' is no exported record: it is no object with format and rows [record_json]
echo "{}" > r.json
sectile tune import r.json --record r.sqlite
