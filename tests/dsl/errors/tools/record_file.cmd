# SPDX-License-Identifier: Apache-2.0
# A record that is not there.
# EXPECT: 'nowhere' cannot be read: No such file or directory [record_file]
sectile tune show --record nowhere
