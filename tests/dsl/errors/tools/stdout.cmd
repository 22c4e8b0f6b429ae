# SPDX-License-Identifier: Apache-2.0
# Output to a full device.
# EXPECT: standard output cannot be written: No space left on device [stdout]
sectile targets > /dev/full
