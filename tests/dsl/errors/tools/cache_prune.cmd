# SPDX-License-Identifier: Apache-2.0
# A damaged entry that cannot be removed, as it is a directory.
# EXPECT: 0 files removed from '.', 1 entries (
# EXPECT: bytes, 1 damaged) remain over the limit [cache_prune]
mkdir 0123456789abcdef0123456789abcdef.kernel
sectile cache prune --dir .
