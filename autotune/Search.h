// SPDX-License-Identifier: Apache-2.0
/// \file The search: which candidates are compiled, timed, compared and chosen. Tuner.cpp is the public face; tests come
/// in here, with a worker of their own and a scripted clock.
#pragma once

#include "autotune/Measure.h"
#include "autotune/Space.h"

#include <sectile/Tuner.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace sectile::autotune {

/// What a candidate's measurement was in an earlier run.
struct KnownTime {
  double micros = 0, low = 0, high = 0;
};

struct SearchSetup {
  TuneOptions options;
  Device device;
  std::function<std::unique_ptr<Measurer>()> makeMeasurer; ///< called once, on a thread of its own
  GeneratedArgs args;                                      ///< argument set 0
  /// An earlier measurement of this very candidate, if one is kept; null: none is.
  std::function<std::optional<KnownTime>(const Candidate &)> known;
  std::size_t mostCompiles = 0; ///< 0: by the size of the space
  std::function<double(const Candidate &)> model; ///< instead of the cost model's microseconds, for tests
};

/// Fills in what no schedule can be quicker than.
void setBound(TuneResult &result, const Bound &bound, const Device &device);

/// Searches. Fills all of the result but what is about the record. UserErrors as for tune().
SECTILE_API TuneResult search(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const SearchSetup &setup);

} // namespace sectile::autotune
