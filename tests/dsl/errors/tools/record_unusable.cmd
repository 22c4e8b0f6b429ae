# SPDX-License-Identifier: Apache-2.0
# A file that is no record, and is left as it is.
# EXPECT: the tuning record 'notes.txt' is not used: file is not a database [record_unusable]
echo "shopping: milk, eggs" > notes.txt
sectile tune export --record notes.txt
