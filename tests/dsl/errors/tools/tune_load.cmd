# SPDX-License-Identifier: Apache-2.0
# A library that is none; a pipe, at which nothing may wait.
# EXPECT: ./notes.txt cannot be loaded: ./notes.txt: invalid ELF header [tune_load]
# EXPECT: ./pipe cannot be loaded: it is a pipe, not a file [tune_load]
mkfifo pipe; sectile tune --load pipe --list || true
head -c 100 /dev/zero > notes.txt; sectile tune --load notes.txt --list
