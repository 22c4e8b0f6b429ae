// SPDX-License-Identifier: Apache-2.0
/// \file Which build of the library this is: two builds of one version may make different code.
#pragma once

#include <string>

namespace sectile {

/// The GNU build id (ELF note NT_GNU_BUILD_ID) of the object that holds the library's code, as hexadecimal
/// digits; empty if it was linked without one.
const std::string &buildId();

} // namespace sectile
