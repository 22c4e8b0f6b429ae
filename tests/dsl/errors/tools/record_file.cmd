# SPDX-License-Identifier: Apache-2.0
# A record that is not there; exports that are no files.
# EXPECT: 'nowhere' cannot be read: No such file or directory [record_file]
# EXPECT: '/dev/zero' cannot be read: it is a device, not a file [record_file]
# EXPECT: '.' cannot be read: it is a directory, not a file [record_file]
# EXPECT: 'pipe' is no exported record
mkfifo pipe
sectile tune diff pipe pipe || true
sectile tune diff /dev/zero pipe || true
sectile tune import . --record own || true
sectile tune show --record nowhere
