// SPDX-License-Identifier: Apache-2.0
/// \file Checks of the checker: its rounding, its workers.
#pragma once

#include <string>
#include <vector>

namespace sectile::numerics {

struct SelfCheck {
  std::string name, problem; ///< problem: empty if all is well
};
std::vector<SelfCheck> selfTest();

} // namespace sectile::numerics
