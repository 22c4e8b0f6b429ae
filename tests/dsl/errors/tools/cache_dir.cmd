# SPDX-License-Identifier: Apache-2.0
# A cache directory that is not there.
# EXPECT: 'nowhere' cannot be read: No such file or directory [cache_dir]
sectile cache list --dir nowhere
