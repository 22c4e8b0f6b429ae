// SPDX-License-Identifier: Apache-2.0
/// \file Every environment switch of Sectile, in one table. Read once, at the first call of `env()`; the only
/// file-scope state of the runtime besides the driver handle.
#pragma once

#include <sectile/Export.h>

#include <span>
#include <string>
#include <string_view>

namespace sectile::runtime {

/// One row of the table: what may be written, what it means, what holds when it is unset.
struct EnvSwitch {
  const char *name, *values, *meaning, *unset;
};
/// All switches, in the order of the documentation.
SECTILE_API std::span<const EnvSwitch> envTable();
/// The table with today's values, one switch a line, for `--help` and bug reports.
SECTILE_API std::string envTableText();

/// The switches as read. Paths are as written by the user; empty means unset.
struct Env {
  std::string device;   ///< SECTILE_DEVICE: "interpreter", "gpu", "gpu:N"
  bool log = false;     ///< SECTILE_LOG
  std::string dump;     ///< SECTILE_DUMP: comma-separated stages
  std::string ptxas;    ///< SECTILE_PTXAS: a path, or "none"
  std::string cacheDir; ///< the directory of the kernel cache, defaults applied; empty: none can be named
  bool cache = true;    ///< SECTILE_CACHE is not 0
  bool tune = false;    ///< SECTILE_TUNE
  std::string tuneRecord; ///< SECTILE_TUNE_RECORD (autotune/Record.h: recordPlace)
  bool checkPointers = false; ///< SECTILE_CHECK names "pointers"
  std::string cudaLibrary;    ///< SECTILE_CUDA_LIBRARY, default libcuda.so.1
  bool nvtx = false;       ///< SECTILE_NVTX
  std::string nvtxLibrary; ///< SECTILE_NVTX_LIBRARY; empty: the usual names
  std::string cudaHome;       ///< CUDA_HOME
  std::string path;           ///< PATH
  std::string tempDir;        ///< TMPDIR, default /tmp

  /// True when SECTILE_DUMP names this stage ("tile", "tgpu", "llvm", "ptx") or "all".
  SECTILE_API bool dumps(std::string_view stage) const;
};

/// The environment as first read. The reference stays good for the life of the process. Thread-safe.
SECTILE_API const Env &env();
/// Reads the environment again; references from earlier calls keep the old values. For tests.
SECTILE_API void reloadEnv();

} // namespace sectile::runtime
