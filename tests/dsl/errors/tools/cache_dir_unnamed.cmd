# SPDX-License-Identifier: Apache-2.0
# Nothing says where the cache is, and the user has no home directory.
# EXPECT: no cache directory can be named: neither SECTILE_CACHE_DIR nor HOME is set [cache_dir]
env -u HOME -u SECTILE_CACHE_DIR -u XDG_CACHE_HOME LD_PRELOAD="$NO_HOME" sectile cache list
