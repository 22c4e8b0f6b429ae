// SPDX-License-Identifier: Apache-2.0
/// \file The names of all targets, for messages.
#pragma once

#include <sectile/Targets.h>

#include <string>

namespace sectile {

/// "sm_80, sm_86, .."
inline std::string targetList() {
  std::string text;
  for (const Target &t : targets())
    text += (text.empty() ? "" : ", ") + std::string(t.arch);
  return text;
}

} // namespace sectile
