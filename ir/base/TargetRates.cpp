// SPDX-License-Identifier: Apache-2.0
#include "ir/base/TargetRates.h"

namespace sectile {

double l2GBs(const Target &target) {
  if (target.arch == "sm_80")
    return 5120 * 1.41;
  if (target.arch == "sm_90a")
    return 6154 * 1.755;
  return 0;
}

} // namespace sectile
