// SPDX-License-Identifier: Apache-2.0
/// \file Finds NVIDIA's assembler and runs it: PTX text to a cubin.
#pragma once

#include <sectile/Error.h>
#include <sectile/Export.h>

#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::runtime {

/// What one run of ptxas gave.
struct PtxasResult {
  bool ok = false;
  std::string cubin;
  std::string log;      ///< everything ptxas printed
  std::string problem;  ///< why it failed, one line; empty when ok
  int registers = -1;   ///< per thread, the most of all entries; -1: not said
  int spillBytes = -1;  ///< stores and loads per thread, summed over all entries; -1: not said
  int sharedBytes = -1; ///< static shared memory, the most of all entries; -1: not said
  /// Warnings C75xx: the code is right and slow (serialised wgmma and the like).
  std::vector<std::string> performanceLosses;
};

/// An assembler that was found.
class SECTILE_API Ptxas {
public:
  /// Looks at SECTILE_PTXAS, then PATH, CUDA_HOME/bin, /usr/local/cuda/bin, and the directory that this build
  /// was configured with (SECTILE_DEPS_DIR/ptxas/bin). nullopt when there is none or SECTILE_PTXAS=none. UserError
  /// [bad_ptxas] when SECTILE_PTXAS names something that does not run as ptxas.
  static std::optional<Ptxas> find(const SourceLoc &loc = std::source_location::current());

  const std::string &path() const { return file; }
  /// "13.0.88"
  const std::string &version() const { return versionText; }

  /// Assembles PTX for an architecture ("sm_90a") with -O3 -v in a private directory, which is gone
  /// afterwards. Never throws for what ptxas does: a failure, a crash and a full disk are a `problem`.
  PtxasResult assemble(std::string_view ptx, std::string_view arch) const;

  /// Like assemble; where the code spills under the blocks per multiprocessor that `ptx` asks room for, with less of
  /// that: one block less, then no such demand, while spills do not grow. `ptx` becomes the text that the cubin is of.
  PtxasResult assembleWithRoom(std::string &ptx, std::string_view arch) const;

private:
  Ptxas(std::string file, std::string version) : file(std::move(file)), versionText(std::move(version)) {}
  std::string file, versionText;
};

/// PTX that makes room for one block per multiprocessor less in each of its entries, or with `drop` leaves that to the
/// assembler; the same text where it makes none.
SECTILE_API std::string withLessRoom(std::string_view ptx, bool drop);

/// Reads registers, spills, shared bytes and C75xx warnings out of a log of `ptxas -v`.
SECTILE_API void parsePtxasLog(PtxasResult &result);

} // namespace sectile::runtime
