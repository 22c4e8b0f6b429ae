# SPDX-License-Identifier: Apache-2.0
# A library that is none.
# EXPECT: ./notes.txt cannot be loaded: ./notes.txt: invalid ELF header [tune_load]
head -c 100 /dev/zero > notes.txt; sectile tune --load notes.txt --list
