// SPDX-License-Identifier: Apache-2.0
/// \file Ahead of time: kernels and configurations become C source that holds their code for several targets and launches it
/// without Sectile (`sectile build`; runtime/c is the runtime it comes with).
#pragma once

#include "dsl/Compile.h"

#include <sectile/Export.h>
#include <sectile/Kernel.h>

#include <string>
#include <utility>
#include <vector>

namespace sectile {

/// A kernel for arguments such as these: what holds of their pointers, strides and lengths is what its variants count on.
struct AheadJob {
  detail::KernelDesc kernel;
  std::string name;                ///< as it is published; in C other characters than letters, digits and _ become _
  std::vector<KernelArg> args;     ///< data pointers count for their alignment alone; null: 16 bytes
  std::vector<Config> byHand = {}; ///< configurations, a variant each; empty: that of the record, else the model's, else the first values
};

struct AheadOptions {
  std::string name = "kernels";        ///< of the files, and what every C name begins with
  std::vector<std::string> archs;      ///< rows of the targets table
  bool withPtx = false;                ///< beside the cubins, for drivers that refuse them
  /// Per target the GPU whose rows of the record count; else one whose name holds that of the target's chip.
  std::vector<std::pair<std::string, std::string>> gpus = {};
};

/// One variant as it was made.
struct AheadVariant {
  AheadJob const *job = nullptr;
  std::string kernel, arch, origin;    ///< origin: "by hand", "record of GPU", "model: why", "first values"
  std::shared_ptr<const CompiledKernel> compiled;
  bool apart = true;                   ///< serves arguments that areApart() alone
};

struct AheadResult {
  std::vector<std::pair<std::string, std::string>> files; ///< name and text: NAME.h, NAME.c, NAME.json, sectile_c.h, sectile_c.c
  std::vector<AheadVariant> variants;
  std::string table;                   ///< of the variants, for people
};

/// Compiles all jobs for all targets. UserErrors: [build_name] for a name of the artefact that is no C identifier, [build_target]
/// for no target, or one that is no row of the table, and those of compiling a configuration by hand or the first values.
SECTILE_API AheadResult buildAhead(const std::vector<AheadJob> &jobs, const AheadOptions &options);

/// NAME.h, NAME.c and NAME.json of these variants, which are those of one kernel after the other (AheadText.cpp).
std::vector<std::pair<std::string, std::string>> aheadText(const std::vector<AheadVariant> &variants, const AheadOptions &options,
                                                           const std::string &recordJson);

/// The runtime in C: header and source.
extern const char *const aheadRuntimeHeader, *const aheadRuntimeSource;

} // namespace sectile
