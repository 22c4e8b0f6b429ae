// SPDX-License-Identifier: Apache-2.0
/// \file The one line per compiled kernel that SECTILE_LOG=1 prints.
#pragma once

#include <sectile/Export.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sectile::runtime {

/// What happened in one compile.
struct CompileReport {
  std::string kernel;
  std::string key; ///< hexadecimal; its first 8 digits are printed
  std::string arch;
  std::string config;                                      ///< as Config prints itself, "128x256x64 s4 w8"
  std::vector<std::pair<std::string, double>> stageMillis; ///< in order, "trace" 1.1
  int registers = -1, spillBytes = -1;                     ///< -1: not known
  std::int64_t sharedBytes = -1;
  std::string change;                ///< in what the variant differs from the one compiled before; empty: the first
  std::string cache;                 ///< "miss: not on disk", "disk hit", "memory hit"
  std::vector<std::string> warnings; ///< C75xx lines of ptxas
};

/// `matmul #e93e70f1 sm_90a cfg(128x256x64 s4 w8): trace 1.1 ms, ptxas 210.0 ms, 168 regs, 0 spills, 196 KiB
/// smem, cache miss: not on disk`; what changed since the variant before; a line more per warning.
SECTILE_API std::string compileLine(const CompileReport &report);
/// Prints compileLine() to stderr in one write when SECTILE_LOG=1.
SECTILE_API void logCompile(const CompileReport &report);
/// Prints `sectile: <text>` to stderr in one write when SECTILE_LOG=1.
SECTILE_API void logLine(std::string_view text);

} // namespace sectile::runtime
