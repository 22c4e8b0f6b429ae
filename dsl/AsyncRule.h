// SPDX-License-Identifier: Apache-2.0
/// \file Where copies by threads of the producer (PTX ISA, cp.async) are faster than the TMA unit.
#pragma once

#include "ir/base/Artifact.h"

#include <cstdint>
#include <span>

namespace sectile {

/// For these arguments the variant with `async` 2 is faster than `launch`, whose operands the TMA unit loads: rows of some
/// operand start inside lines of memory, for which the unit takes two requests, and all programs run at a time, so that
/// loads are waited for. Where tensors are loaded very often a copy in whole lines (dsl/Repack.h) is faster still.
bool threadsCopyFaster(const LaunchInfo &launch, std::span<const KernelArg> args, std::int64_t programs, int multiprocessors);

} // namespace sectile
