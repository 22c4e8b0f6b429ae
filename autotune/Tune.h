// SPDX-License-Identifier: Apache-2.0
/// \file Tuning as the rest of the library asks for it.
#pragma once

#include "autotune/MeasureDevice.h"

#include <sectile/Stream.h>
#include <sectile/Tuner.h>

#include <memory>
#include <span>
#include <string>

namespace sectile::autotune {

/// What tests put in the place of the usual.
struct TuneHooks {
  std::shared_ptr<const MeasureScript> script; ///< of the interpreter's candidates
  std::string workerProgram;                   ///< empty: `sectile` beside the library
  std::size_t mostCompiles = 0;                ///< 0: by the size of the space
  bool forLaunch = false;                      ///< the record's choice is taken without a look at the other candidates
  bool hostMemory = false;                     ///< arguments with data lie in host memory, whatever the device
};

/// tune() with hooks.
SECTILE_API TuneResult tuneWith(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const TuneOptions &options,
                                const TuneHooks &hooks);

/// Before a launch that may tune: tunes the kernel for these arguments unless the record knows them, or this process has
/// tried. Nothing is done while the stream is being captured. Mistakes are said once on stderr, for the launch can go on with
/// the default.
SECTILE_API void tuneForLaunch(const detail::KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args, double seconds,
                               CodePosition where);

} // namespace sectile::autotune
