// SPDX-License-Identifier: Apache-2.0
/// \file The banks of shared memory: 32, each 4 bytes wide, one word of each per pass.
#pragma once

#include <cstdint>
#include <span>

namespace sectile {

inline constexpr int numBanks = 32, bankBytes = 4;

struct BankPasses {
  int all = 0;   ///< passes over the banks
  int least = 0; ///< what the width of the access needs
};
/// Passes of one instruction of a warp: each lane moves `bytes` (a power of two, at most 16) at its address;
/// a negative address: the lane does nothing. 16-byte accesses are served in four parts of 8 lanes, 8-byte
/// accesses in two; within a part different words of one bank follow each other.
BankPasses bankPasses(std::span<const std::int64_t> addresses, std::int64_t bytes);

} // namespace sectile
