// SPDX-License-Identifier: Apache-2.0
/// \file Rates of a target that only estimates need.
#pragma once

#include <sectile/Targets.h>

namespace sectile {

/// Bytes of a multiprocessor's shared memory per clock.
inline constexpr int sharedBytesPerClock = 128;
/// Lanes of a multiprocessor that begin an instruction per clock: four warps.
inline constexpr int lanesPerClock = 128;

/// What all multiprocessors together read from the L2 cache, 10^9 bytes per second; 0: no figure. A100: 5120 bytes a clock
/// at 1.41 GHz, of its architecture paper. H200: 6154 bytes a clock at 1.755 GHz, of DeepGEMM's cost model, which was
/// fitted to measurements.
double l2GBs(const Target &target);

} // namespace sectile
