# SPDX-License-Identifier: Apache-2.0
# A device that is none.
# EXPECT: 'gpu:x' is no device [tune_device]
sectile tune --device gpu:x
