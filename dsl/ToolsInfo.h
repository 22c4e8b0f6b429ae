// SPDX-License-Identifier: Apache-2.0
/// \file What `sectile` says of this installation: targets, switches, versions, the kernel cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sectile::tools {

/// The targets table with limits and features, a column per GPU; or one JSON object per row, in an array.
std::string targetsText();
std::string targetsJson();

/// Version of Sectile and LLVM, the assembler, the driver, the GPUs. What is missing is said, with the
/// reason.
std::string versionText();

/// Entries of the kernel cache in `dir` (empty: the one in use), most recently used first. UserError
/// [cache_dir] when the directory cannot be read; one that does not exist is an empty cache unless the caller
/// named it.
std::string cacheListText(const std::string &dir);
/// Removes damaged entries and, over `maxBytes`, those not used for longest. UserErrors [cache_dir] and
/// [cache_prune] (something could not be removed).
std::string cachePruneText(const std::string &dir, std::optional<std::uint64_t> maxBytes);

} // namespace sectile::tools
