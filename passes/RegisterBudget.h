// SPDX-License-Identifier: Apache-2.0
/// \file Registers that a thread of the warps which compute can have beside one warpgroup that loads (SpecialiseWarps).
#pragma once

#include <algorithm>
#include <cstdint>

namespace sectile::passes {

/// With one block on a multiprocessor of 65536 registers. 255 is what an instruction can name, 240 what setmaxnreg is used for.
inline std::int64_t consumerRegisters(std::int64_t warps) {
  constexpr std::int64_t all = 65536, lanes = 32, producerWarps = 4, producerRegisters = 24, unit = 8, most = 240;
  const std::int64_t threads = (warps + producerWarps) * lanes, entry = std::min<std::int64_t>(255, all / threads / unit * unit);
  return std::min(most, (entry * threads - producerRegisters * producerWarps * lanes) / (warps * lanes) / unit * unit);
}

/// Registers of a thread that addresses, states of rows and temporaries need beside the tiles of a loop with products.
constexpr std::int64_t registersBesideTiles = 48;

} // namespace sectile::passes
