// SPDX-License-Identifier: Apache-2.0
/// \file The kernels that publish() has made known to this process.
#pragma once

#include <sectile/Export.h>
#include <sectile/Publish.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::autotune {

SECTILE_API std::optional<detail::KernelDesc> findPublished(std::string_view name);
/// In the order of the alphabet.
SECTILE_API std::vector<std::string> publishedNames();

} // namespace sectile::autotune
