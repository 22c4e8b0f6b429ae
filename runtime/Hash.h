// SPDX-License-Identifier: Apache-2.0
/// \file Two hashes: SHA-256 to name things by content, xxHash64 to notice damage quickly.
#pragma once

#include <sectile/Export.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sectile::runtime {

using Sha256 = std::array<std::uint8_t, 32>;
/// SHA-256 (FIPS 180-4).
SECTILE_API Sha256 sha256(std::string_view bytes);
/// xxHash64 with seed 0 (the algorithm's specification, version 0.1.1).
SECTILE_API std::uint64_t xxHash64(std::string_view bytes);
/// Lower-case hexadecimal digits of the first `count` bytes.
SECTILE_API std::string hexText(const Sha256 &digest, std::size_t count = 32);

} // namespace sectile::runtime
