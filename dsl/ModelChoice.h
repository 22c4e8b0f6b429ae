// SPDX-License-Identifier: Apache-2.0
/// \file What a plain launch takes for the picks of a kernel where the tuning record knows nothing: the cost model's choice.
#pragma once

#include <sectile/Config.h>
#include <sectile/Export.h>
#include <sectile/Kernel.h>
#include <sectile/Targets.h>

#include <optional>
#include <span>
#include <string>

namespace sectile::runtime {
class DiskCache;
}

namespace sectile {

/// What the model says of a launch.
struct ModelChoice {
  std::optional<Config> config; ///< every pick by hand; nullopt: the first of every pick
  std::string why;              ///< "predicted 81.0 us, the first values 120.5 us"; else why the first values stay
};

/// The model's choice among the kernel's picks, schedules by rule, for a GPU with `multiprocessors`. Another choice than the
/// first values is taken where the model predicts at most modelMargin of their time, and knows how operands of products are loaded: on GPUs
/// with products of warpgroups, by the TMA unit. Of many combinations those near the
/// first values are looked at. The same on every process: it follows from the kernel, the buckets of the lengths (shapeBucket),
/// the facts of pointers and strides, and the target. Costs a trace of every combination, or, where the kernel cache on disk has it,
/// one trace. Never throws: a kernel that cannot be ranked keeps its first values. `disk` null: the process' kernel cache.
SECTILE_API ModelChoice modelChoice(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target &target,
                                    int multiprocessors, runtime::DiskCache *disk = nullptr);

/// What the model expects of a launch with the first values, in microseconds, on a GPU like the target's. Throws what tracing throws.
double modelMicros(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target &target);

/// The model errs; below this share of the first values' time it was not seen to be wrong about which is quicker.
inline constexpr double modelMargin = 0.85;
/// The most combinations of picks that a plain launch looks at.
inline constexpr int modelTraces = 64;

/// Whether the kernel left something to choose in this configuration, as its trace has filled it in.
SECTILE_API bool hasOpenPicks(const Config &config);

} // namespace sectile
